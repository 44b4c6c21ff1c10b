"""Did the engine receive what was trained: recorded runs whose clean digests stand still, beside sound neighbours."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rlx.evidence import Verdict, judge, read_evidence
from rlx.evidence.traces import Setup
from rlx.model import RunState
from tests.conftest import CASES
from tests.evidence.edits import GAP, GRADIENT, Recorded
from tests.recorded import recorded_expectations

CORRELATION = "training/rollout_actor_probs_pearson_corr"
_FLOAT32, _BFLOAT16 = ({"model": {"dtype": dtype}} for dtype in ("float32", "bfloat16"))
_KNOWN: dict[str, Any] = {"trainer": {"nnodes": 1}}
_LORA: dict[str, Any] = {"actor_rollout_ref": {"model": {"lora_rank": 8}}}
_MOE: dict[str, Any] = {"actor_rollout_ref": {"rollout": {"expert_parallel_size": 2}}}


def freeze(run: Recorded, first: int, last: int = 99) -> None:
    """Let the engine keep the clean weights of step `first` up to `last`, in all records of its process."""
    own = [line for line in run.events if line["kind"] == "noise"]
    (kept, *_) = [line["digest_clean"] for line in own if line["step"] == first and line["phase"] == "rollout"]
    for line in own:
        # What is validated after a step generates the next one.
        until = last - 1 if line["phase"] == "validation" else last
        if first <= line["step"] <= until:
            noisy = line["digest_after"] != line["digest_clean"]
            line.update(digest_clean=kept, digest_after=f"{line['step']:016d}" if noisy else kept)
    left = ""
    for line in own:
        line["digest_before"] = left and line["digest_before"] and left
        left = line["digest_after"]


def put(run: Recorded, metric: str, value: Callable[[int], float], steps: Iterable[int] = range(1, 21)) -> None:
    run.log = ""  # the file of metrics is the record
    for line in run.metrics:
        if line["step"] in steps:
            line["data"][metric] = value(line["step"])


def drifting(run: Recorded, first: int = 1) -> None:
    put(run, GAP, lambda step: 0.002 * (step + 1 - first), range(first, 21))


def stale_from_the_start(run: Recorded) -> None:
    freeze(run, 1)
    drifting(run)


def stale_from_the_middle(run: Recorded) -> None:
    freeze(run, 11)
    drifting(run, 11)


def stale_for_a_while(run: Recorded) -> None:
    freeze(run, 5, 14)
    put(run, GAP, lambda step: 0.002 * (step - 4), range(5, 15))


def stale_and_the_correlation_falls(run: Recorded) -> None:
    freeze(run, 1)
    put(run, GAP, lambda step: 0.001)
    put(run, CORRELATION, lambda step: 1 - 0.02 * step)


def stale_with_a_gradient_of_zero_now_and_then(run: Recorded) -> None:
    stale_from_the_start(run)
    put(run, GRADIENT, lambda step: 0.0, (3, 9, 15))


def stale_beside_noise(run: Recorded) -> None:
    """Sigma falls from step 5 on, and the gap rises."""
    freeze(run, 5)
    drifting(run, 5)


def frozen_and_close(run: Recorded) -> None:
    """As layers that are not trained, beside others that are."""
    freeze(run, 1)


def four_updates(run: Recorded) -> None:
    freeze(run, 1, 5)


def gradients_of_zero(run: Recorded) -> None:
    """Nothing to learn any more: no update, and so no other weights."""
    freeze(run, 9)
    put(run, GRADIENT, lambda step: 0.0, range(9, 21))
    put(run, "critic/advantages/max", lambda step: 0.0, range(9, 21))
    put(run, "critic/advantages/min", lambda step: 0.0, range(9, 21))


def untouched(run: Recorded) -> None:
    """As it was recorded."""


class Case(NamedTuple):
    edit: Callable[[Recorded], None]
    expected: set[str]
    arm: str = "baseline"
    configuration: dict[str, Any] = _KNOWN
    recipe: dict[str, Any] = _FLOAT32


INVALID = {"RLX792"}
ASIDE = {"RLX793"}
CAUGHT = [
    Case(stale_from_the_start, INVALID),
    Case(stale_from_the_middle, INVALID),
    Case(stale_for_a_while, INVALID),
    Case(stale_and_the_correlation_falls, INVALID),
    Case(stale_with_a_gradient_of_zero_now_and_then, INVALID),
    Case(stale_beside_noise, INVALID, "aqn"),
]
LEFT_ALONE = [
    Case(untouched, set()),
    Case(untouched, set(), "aqn"),
    Case(drifting, set()),
    Case(four_updates, set()),
    Case(gradients_of_zero, set()),
    Case(frozen_and_close, ASIDE),
    Case(stale_from_the_start, ASIDE, recipe=_BFLOAT16),
    Case(stale_from_the_start, set(), configuration=_LORA),
    Case(stale_from_the_start, set(), configuration=_MOE),
    Case(stale_from_the_start, set(), configuration={}),
]


def verdict_of(case: Case, folder: Path, rules: int | None = None) -> Verdict:
    shutil.copytree(CASES / "logs" / f"probed-{case.arm}", folder)
    run = Recorded(folder)
    case.edit(run)
    run.write()
    setup = Setup(recipe=case.recipe, configuration=case.configuration)
    more: dict[str, Any] = {} if rules is None else {"rules": rules}
    expectations = recorded_expectations(run.expectations)
    state = RunState.FINISHED
    evidence = replace(read_evidence([folder]), backend="verl")
    return judge(evidence, expectations, state, arm=case.arm, setup=setup, **more)


def ids(verdict: Verdict) -> set[str]:
    return {finding.id for finding in verdict.findings if finding.id in ("RLX791", "RLX792", "RLX793")}


@pytest.mark.parametrize("case", [*CAUGHT, *LEFT_ALONE], ids=lambda case: f"{case.edit.__name__}-{case.arm}")
def test_an_engine_that_keeps_its_weights(case: Case, tmp_path: Path) -> None:
    verdict = verdict_of(case, tmp_path / "run")
    assert ids(verdict) == case.expected, verdict.sentence
    if case.expected == INVALID:
        assert verdict.status == "invalid"
        assert "the trainer made" in verdict.sentence


def test_earlier_rules_know_nothing_of_it(tmp_path: Path) -> None:
    assert not ids(verdict_of(CAUGHT[0], tmp_path / "run", rules=2))


@pytest.mark.parametrize(("lost", "expected"), [(5, set()), (6, {"RLX791"}), (15, {"RLX791"})])
def test_gradients_of_zero_where_advantages_differ(lost: int, expected: set[str], tmp_path: Path) -> None:
    def edit(run: Recorded) -> None:
        put(run, GRADIENT, lambda step: 0.0, range(21 - lost, 21))
        put(run, "critic/advantages/max", lambda step: 1.0)
        put(run, "critic/advantages/min", lambda step: -1.0)

    verdict = verdict_of(Case(edit, expected), tmp_path / "run")
    assert ids(verdict) == expected
    assert (verdict.status == "invalid") == (lost > 10)
