from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.evidence import NoiseEvent, Progress, RunTotals
from rlx.evidence.reading.console import ConsoleParser
from tests.conftest import CASES

RECORDED = (CASES / "logs" / "tiny-aqn" / "log").read_bytes()
STEP = b"(TaskRunnerV1 pid=7, ip=10.0.0.1) step:7 - a/b:0.25 - c:np.float64(-1e-06)\n"


def parse(log: bytes, *, finished: bool = True) -> ConsoleParser:
    parser = ConsoleParser()
    parser.feed(log)
    if finished:
        parser.finish()
    return parser


def steps(log: bytes) -> dict[int, dict[str, float]]:
    return parse(log).timeline.steps


@pytest.mark.parametrize(
    "line",
    [
        b"step:3 - loss:-0.5 - acc:0.25",
        b"(TaskRunner pid=247607) step:3 - loss:-0.5 - acc:0.25",
        b"(TaskRunnerV1 pid=1, ip=10.0.0.7) step:3 - loss:-0.5 - acc:0.25 [repeated 7x across cluster]",
        b"\x1b[36m(TaskRunnerV1 pid=1)\x1b[0m step:3 - loss:-0.5 - acc:0.25\x1b[32m [repeated 7x across cluster]",
        b"step:3 - loss:np.float64(-0.5) - acc:np.float32(0.25)",
        b"step:3 - loss: -0.500 - acc: 0.250",
        b"step: 3 - loss:-5e-01 - acc:2.5E-1",
        b"step:3 - loss:-0.5s - acc:.25",
        b"step:3 - a name:1 - loss:-0.5 - text:many - acc:0.25",
        b"noise before step:3 - loss:-0.5 - acc:0.25",
        b"Training Progress:  5%|\xe2\x96\x8c  | 1/20 [00:02<00:44, 2.35s/it]step:3 - loss:-0.5 - acc:0.25",
        b"step:3 - loss:-0.5 - acc:0.25Training Progress:  5%|\xe2\x96\x8c  | 1/20 [00:02<00:44, 2.35s/it]",
        b"Training Progress:  5%|   | 1/20 [00:02<00:44, 2.35s/it]\rstep:3 - loss:-0.5 - acc:0.25",
        b"step:3 - loss:-0.5 - acc:0.25\r",
        b"\xff\xfe\x00\x9f step:3 - loss:-0.5 - acc:0.25",
    ],
)
def test_a_metrics_line_in_every_dress(line: bytes) -> None:
    assert steps(line + b"\n") == {3: {"loss": -0.5, "acc": 0.25}}


@pytest.mark.parametrize(
    "line",
    [
        b"timing_s/step:87 - other:1",
        b"global_step:87 - other:1",
        b"step:three - a:1",
        b"step:5 - as you can see",
        b"step:99999999999999999999999 - a:1",
        b"step:5",
    ],
)
def test_what_only_looks_like_a_metrics_line(line: bytes) -> None:
    assert steps(line + b"\n") == {}


def test_numbers_of_every_kind() -> None:
    line = b"step:1 - i:np.int64(2) - n:nan - m:np.float64(nan) - p:inf - q:-inf - e:1e-06 - big:4.2e+18 - z:0\n"
    values = steps(line)[1]
    assert math.isnan(values.pop("n")) and math.isnan(values.pop("m"))
    assert values == {"i": 2, "p": math.inf, "q": -math.inf, "e": 1e-6, "big": 4.2e18, "z": 0}


def test_two_lines_glued_together() -> None:
    assert steps(b"step:1 - a:1 - b:2 step:2 - a:3\n") == {1: {"a": 1, "b": 2}, 2: {"a": 3}}


def test_a_line_without_end_counts_once_the_run_is_over() -> None:
    torn = b"step:1 - a:1\nstep:2 - a:0.5"
    assert parse(torn, finished=False).timeline.steps == {1: {"a": 1}}
    assert parse(torn, finished=True).timeline.steps == {1: {"a": 1}, 2: {"a": 0.5}}


def test_validation_and_training_of_one_step_are_one() -> None:
    assert steps(b"step:4 - a:1\nstep:4 - val-core/x/acc/mean@1:0.5\n") == {4: {"a": 1, "val-core/x/acc/mean@1": 0.5}}


def test_one_step_twice_with_other_values_is_kept_as_a_contradiction() -> None:
    timeline = parse(b"step:4 - a:1 - b:2\nstep:4 - a:1 - b:3\n").timeline
    assert timeline.steps == {4: {"a": 1, "b": 3}}
    assert [(d.step, d.key, d.values) for d in timeline.disagreements] == [(4, "b", (2, 3))]
    assert not timeline.restarts


def test_a_step_that_goes_back_is_a_restart_and_the_abandoned_steps_are_forgotten() -> None:
    timeline = parse(b"step:1 - a:1\nstep:2 - a:2\nstep:3 - a:3\nstep:0 - v:9\nstep:1 - a:4\n").timeline
    assert timeline.steps == {0: {"v": 9}, 1: {"a": 4}}
    assert [restart.step for restart in timeline.restarts] == [0]
    assert not timeline.disagreements


@pytest.mark.parametrize(
    "said",
    [
        b"Setting global step to 2\nResuming from /ckpt/global_step_2\n",
        b"Setting global step to 2\n(pid=1) Setting global step to 2\n",
        b"INFO:2026-11-20 15:54:38,174:Resuming from /ckpt/global_step_2, setting global step to 2\n",
    ],
)
def test_a_loaded_checkpoint_is_one_restart(said: bytes) -> None:
    timeline = parse(b"step:2 - a:1\nstep:3 - a:1\n" + said + b"step:2 - v:1\nstep:3 - a:5\n").timeline
    assert [(each.attempt, each.step) for each in timeline.restarts] == [(1, 2)]
    assert timeline.steps == {2: {"a": 1, "v": 1}, 3: {"a": 5}}
    assert not timeline.disagreements


def test_totals_and_progress_of_a_real_run() -> None:
    parser = parse(RECORDED)
    assert parser.totals == RunTotals(total_steps=20, train_rows=400, validation_rows=100)
    assert parser.progress == Progress(20, 20)
    assert sorted(parser.timeline.steps) == list(range(21))


def test_rows_as_older_trainers_print_them() -> None:
    log = b"dataset len: 7473\nfilter dataset len: 7470\ndataset len: 1319\nTotal training steps: 58\n"
    assert parse(log).totals == RunTotals(58, 7470, 1319)
    assert parse(b"dataset len: 7473\n").totals == RunTotals()


def test_noise_lines_take_step_and_sigma_of_their_own_process() -> None:
    log = (
        b"(WorkerDict pid=1) [AQN] Noise injection (Dense) - Step: 3/20, Sigma ID: 0, Sigma: 0.050000, Target: ALL\n"
        b"(WorkerDict pid=2) [AQN] Noise injection (Dense) - Step: 9/20, Sigma ID: 1, Sigma: 0.010000, Target: ALL\n"
        b"(WorkerDict pid=1) [AQN] Applied noise to 57 rmsnorm layers (skipped 0 excluded layers)\n"
        b"(WorkerDict pid=3) [AQN] Applied noise to 5 RMSNorm layers (skipped 0 excluded layers)\n"
    )
    placed, unplaced = parse(log).noise
    assert placed == NoiseEvent(step=4, sigma=0.05, layers=57, kind="RMSNorm")
    assert (unplaced.step, unplaced.layers, math.isnan(unplaced.sigma)) == (None, 5, True)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, len(RECORDED)), max_size=30))
def test_chunk_borders_do_not_matter(cuts: list[int]) -> None:
    whole, pieces = parse(RECORDED), ConsoleParser()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(RECORDED)], strict=True):
        pieces.feed(RECORDED[start:end])
    pieces.finish()
    assert (pieces.timeline.steps, pieces.totals, pieces.progress) == (
        whole.timeline.steps,
        whole.totals,
        whole.progress,
    )
    assert len(pieces.noise) == len(whole.noise)


WORDS = st.sampled_from(
    [b"step:", b"3 - a:", b" - ", b"1e", b"np.float64(", b"\r", b"\n", b"\x1b[36m", b"Training Progress: 5%|",
     b"| 3/9 ", b"[AQN] Noise injection - Step: 1/2, Sigma ID: 0, Sigma: .", b"Applied noise to 5 x layers", b"[00:02<",
     b"Total training steps: 9", b"9" * 5000, b"Setting global step to 99", b"(a pid=1) ", b"\xff\x00",
     b"dataset len: 7", b"iteration: 2 / 3 | ", b"a : 1 | b"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(WORDS | st.binary(max_size=20), max_size=40).map(b"".join))
def test_no_junk_raises_or_hides_the_line_after_it(junk: bytes) -> None:
    found = steps(junk + b"\n" + STEP)
    assert found[7] | {"a/b": 0.25, "c": -1e-6} == found[7]


@settings(deadline=None)
@given(st.lists(WORDS | st.binary(max_size=20), max_size=40), st.data())
def test_no_chunk_border_raises_or_hides_a_line(words: list[bytes], data: st.DataObject) -> None:
    log = b"".join(words) + b"\n" + STEP
    whole, pieces = parse(log), ConsoleParser()
    while log:
        size = data.draw(st.integers(1, len(log)))
        pieces.feed(log[:size])
        log = log[size:]
    pieces.finish()
    assert pieces.timeline.steps[7]["a/b"] == 0.25
    assert repr((pieces.timeline.steps, pieces.state())) == repr((whole.timeline.steps, whole.state()))


@settings(deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z@0-9_]{1,8}){0,3}", fullmatch=True), st.floats(), min_size=1, max_size=8
    )
)
def test_what_verl_prints_is_what_rlx_reads(values: dict[str, float]) -> None:
    line = " - ".join(["step:5", *(f"{key}:{value!r}" for key, value in values.items())])
    read = steps(line.encode() + b"\n")[5]
    assert {key: repr(value) for key, value in read.items()} == {key: repr(value) for key, value in values.items()}


def test_a_number_that_never_ends_takes_no_time() -> None:
    """Each digit is read in one way only: the square of 300,000 would be hours."""
    began = time.process_time()
    for end in (b"j", b"e", b".", b"j 1", b""):
        steps(b"step:3 - a/b:" + b"9" * 300_000 + end + b" - c/d:2.5\n")
    assert time.process_time() - began < 5
