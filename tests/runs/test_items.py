"""Scores item by item of runs here and on a host behind a real sshd: what travels, how often, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.evidence import ItemScores
from rlx.hosts import transport_for
from rlx.hosts.host_errors import HostError
from rlx.model import LOCAL, Cmd, Expectations
from rlx.runs import Index, RunRef, items_of
from rlx.runs.copies.pull import fetch
from rlx.runs.judging.judge_runs import judge_runs
from tests.cli.support import rlx
from tests.loopback import Loopback, loopback  # noqa: F401 - the fixture
from tests.runs.another_user import commands_as_nobody
from tests.runs.toys import ended, home, start, toy_plan
from tests.wording import settled

METRIC = "val-core/toy/acc/mean@1"
ANSWERS = r"""
for item in 1 2 3 4; do
    echo "{\"input\": \"q$item\", \"output\": \"a\", \"score\": 1.0, \"step\": 2, \"acc\": $((item % 2))}"
done >"$RLX_ATTEMPT_DIR/validation/2.jsonl"
"""


def run_at(loopback: Loopback, script: str = ANSWERS, arm: str = "main") -> RunRef:  # noqa: F811
    plan = toy_plan(script, arm=arm)
    (ref,) = start(replace(plan, site=replace(plan.site, place=loopback.place)))
    ended(ref)
    judge_runs(Index(home()), [ref])
    return ref


def read(*refs: RunRef, step: int = 2, metric: str = METRIC) -> dict[str, ItemScores]:
    return items_of(Index(home()), refs, step, metric, narrate=refuse)


def refuse(problem: RlxError) -> None:
    raise AssertionError(problem.message)


def outputs_of(ref: RunRef) -> Path:
    return ref.run_dir / "attempts" / "1" / "validation" / "2.jsonl"


def copies_of(ref: RunRef) -> list[Path]:
    return sorted((home() / "mirror" / ref.run_id / "attempts" / "1" / "outputs").rglob("*.jsonl"))


def test_a_far_run_has_the_scores_a_near_one_would_have(loopback: Loopback) -> None:  # noqa: F811
    ref = run_at(loopback)
    far, near = read(ref)[ref.run_id], read(replace(ref, place=LOCAL))[ref.run_id]
    assert far == near
    assert sorted(far.scores.values()) == [(0.0,), (0.0,), (1.0,), (1.0,)] and far.mean == 0.5
    (copy,) = copies_of(ref)
    assert copy.read_bytes() == outputs_of(ref).read_bytes()


def test_a_second_look_asks_nobody(loopback: Loopback) -> None:  # noqa: F811
    ref = run_at(loopback)
    before = read(ref)
    loopback.stop()
    loopback.cut()
    assert read(ref) == before


def test_evidence_still_counts_the_answers(loopback: Loopback) -> None:  # noqa: F811
    """The copy of the outputs lies beside the count of them, which the verdict goes by."""
    ref = run_at(loopback)
    read(ref)
    assert judge_runs(Index(home()), [ref])[0].evidence.answers == {2: 4}


TRAINED = r"""
echo "train dataset size: 8, val dataset size: 4"
echo "Total training steps: 2"
for step in 1 2; do
    echo "(TaskRunner pid=7) step:$step - timing_s/step:0.5 - val-core/toy/acc/mean@1:0.5"
    echo "{\"step\": $step, \"data\": {\"timing_s/step\": 0.5, \"val-core/toy/acc/mean@1\": 0.5}}" \
        >> "$RLX_ATTEMPT_DIR/metrics.jsonl"
done
"""
PROMISED = Expectations(2, (1, 2), True, 4, 1, "auto", None, False)


def test_compare_pairs_far_runs_and_needs_their_host_once(loopback: Loopback, wording: SnapshotAssertion) -> None:  # noqa: F811
    plans = [
        replace(
            toy_plan(TRAINED + ANSWERS, arm=arm),
            site=replace(toy_plan("").site, place=loopback.place),
            expectations=PROMISED,
            recipe={"train": {"lr": lr}},
            treatment=("train.lr",),
        )
        for arm, lr in (("baseline", 1), ("fast", 2))
    ]
    for ref in start(*plans):
        ended(ref)
    plugged = rlx("compare", "baseline", "fast")
    assert "n = 4 items" in plugged.stdout
    loopback.stop()
    loopback.cut()
    unplugged = rlx("compare", "baseline", "fast")
    assert unplugged.stdout == plugged.stdout
    (contrast,) = json.loads(rlx("compare", "baseline", "fast", "--json").stdout)["contrasts"]
    assert (contrast["test"]["n"], contrast["sentences"]) == (4, wording)


def test_what_was_added_since_is_copied_again(loopback: Loopback) -> None:  # noqa: F811
    ref = run_at(loopback)
    assert len(read(ref)[ref.run_id].scores) == 4
    with outputs_of(ref).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"input": "q5", "acc": 1}) + "\n")
    assert len(read(ref)[ref.run_id].scores) == 4, "the mirror has not seen it yet"
    judge_runs(Index(home()), [ref])
    assert len(read(ref)[ref.run_id].scores) == 5
    assert len(copies_of(ref)) == 1


def test_the_attempt_that_validated_last_counts(tmp_path: Path) -> None:
    (ref,) = start(toy_plan(ANSWERS))
    ended(ref)
    later = ref.run_dir / "attempts" / "2" / "validation"
    later.mkdir(parents=True)
    assert len(read(ref)[ref.run_id].scores) == 4
    (later / "2.jsonl").write_text(json.dumps({"input": "q", "acc": 1}) + "\n", encoding="utf-8")
    assert len(read(ref)[ref.run_id].scores) == 1


@pytest.mark.parametrize(("step", "metric"), [(1, METRIC), (2, "val-core/toy/acc/best@1/mean"), (2, "critic/score")])
def test_no_outputs_of_that(loopback: Loopback, step: int, metric: str) -> None:  # noqa: F811
    ref = run_at(loopback)
    assert read(ref, replace(ref, place=LOCAL), step=step, metric=metric) == {}
    assert copies_of(ref) == []


def test_a_silent_host_is_narrated_and_costs_its_own_items_only(loopback: Loopback) -> None:  # noqa: F811
    ref = run_at(loopback)
    loopback.stop()
    loopback.cut()
    near, told = replace(ref, run_id=ref.run_id, place=LOCAL), []
    assert items_of(Index(home()), [ref], 2, METRIC, told.append) == {}
    assert len(told) == 1 and isinstance(told[0], HostError)
    assert read(near).keys() == {ref.run_id}


def test_what_may_not_be_read_there_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with commands_as_nobody(monkeypatch) as root:
        ref = RunRef("toy-1", "l", "toy", "main", 1, LOCAL, str(root), 0.0)
        ref.run_dir.mkdir(parents=True)
        (ref.run_dir / "open").write_text("a", encoding="utf-8")
        (ref.run_dir / "closed").write_text("a", encoding="utf-8")
        (ref.run_dir / "closed").chmod(0o600)
        assert fetch(ref, "open", 1, tmp_path / "open")
        assert not fetch(ref, "closed", 1, tmp_path / "closed")


@pytest.mark.parametrize("gzip", [True, False])
def test_a_file_comes_whole_with_and_without_gzip(loopback: Loopback, tmp_path: Path, gzip: bool) -> None:  # noqa: F811
    ref = run_at(loopback, f"{ANSWERS}\nhead -c 3000000 /dev/urandom >$RLX_ATTEMPT_DIR/validation/9.jsonl")
    if not gzip:
        tools = loopback.home / "tools"
        tools.mkdir()
        for tool in ("bash", "sh", "head", "sha256sum", "cut", "cat", "env", "mkfifo", "rm", "mktemp", "kill", "sleep"):
            found = next(folder / tool for folder in (Path("/usr/bin"), Path("/bin")) if (folder / tool).exists())
            (tools / tool).symlink_to(found)
        loopback.write_bashrc(f"export PATH={tools}\n")
    look = transport_for(ref.place).run(Cmd("sh", "-c", "command -v gzip"), timeout_s=30)
    assert (look.code == 0) is gzip
    source = outputs_of(ref).with_name("9.jsonl")
    assert fetch(ref, "attempts/1/validation/9.jsonl", 3_000_000, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert fetch(ref, "attempts/1/validation/9.jsonl", 1000, tmp_path / "begin")
    assert (tmp_path / "begin").read_bytes() == source.read_bytes()[:1000]
    assert not fetch(ref, "attempts/1/validation/8.jsonl", 10, tmp_path / "gone")


def test_a_file_that_shrank_is_refused_and_leaves_nothing(
    loopback: Loopback,  # noqa: F811
    tmp_path: Path,
    wording: SnapshotAssertion,
) -> None:
    ref = run_at(loopback)
    with pytest.raises(HostError) as caught:
        fetch(ref, "attempts/1/validation/2.jsonl", 10**6, tmp_path / "here" / "copy")
    assert settled(caught.value.message, {ref.run_id: "run"}) == wording
    assert list((tmp_path / "here").iterdir()) == []
