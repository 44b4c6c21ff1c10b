"""Runs that trained alike: copies, seeds and treatments without effect, and honest runs that look so for a while."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.compare import Comparison, compare
from rlx.compare.equal_runs import equal_runs
from rlx.errors import ExitCode
from rlx.evidence import JudgedRun
from rlx.model import Finding, RunState, Severity
from tests.compare.builders import METRIC, RunBuilder, only

NAMES = ("actor/grad_norm", "actor/pg_loss", "actor/entropy", "critic/score/mean", "response_length/mean")
EQUAL = {"RLX901", "RLX908", "RLX928", "RLX929", "RLX930"}
Times = Callable[[int], float]
CONTROL = RunBuilder(recipe={"train": {"lr": 1e-6}})
TREATMENT = RunBuilder(arm="fast", recipe={"train": {"lr": 2e-6}}, treatment=("train.lr",))


def times(run: int) -> Times:
    """Return the times of the steps of the run with that number."""
    return lambda step: 5.1234567 + math.sin(step) + math.cos(7 * step * run) / 10


def trained(
    builder: RunBuilder,
    draw: int,
    took: Times | None,
    seed: int = 1,
    steps: int = 20,
    equal_until: int = 0,
    digits: int = 17,
    constant: bool = False,
) -> JudgedRun:
    """Judge a run whose metrics follow from `draw`; the same for all draws `equal_until` a step."""
    metrics = {}
    for step in range(1, steps + 1):
        own = draw if step > equal_until else 0
        values = [round(2 + math.sin(own + place + (0 if constant else step)), digits) for place in range(len(NAMES))]
        metrics[step] = dict(zip(NAMES, values, strict=True))
        metrics[step] |= {"timing_s/step": took(step)} if took else {}
        metrics[step] |= {METRIC: 0.5 + (draw + step) % 7 / 100} if step % 5 == 0 else {}
    return replace(builder, seed=seed, metrics=metrics).judged()


def ids(comparison: Comparison) -> set[str]:
    return {finding.id for finding in only(comparison).findings} & EQUAL


def seeds(builder: RunBuilder, draws: Sequence[int], took: Sequence[Times | None]) -> list[JudgedRun]:
    pairs = zip(draws, took, strict=True)
    return [trained(builder, draw, own, seed) for seed, (draw, own) in enumerate(pairs, start=1)]


OTHERS = seeds(CONTROL, (11, 12, 13), (times(11), times(12), times(13)))


def rounded(step: int) -> float:
    """Round the times of run 1 up, as an export may."""
    return round(times(1)(step) + 0.05, 1)


SEEN: dict[str, tuple[list[JudgedRun], list[JudgedRun], str]] = {
    "a seed copied, times rounded": (OTHERS, seeds(TREATMENT, (1, 1, 2), (times(1), rounded, times(2))), "RLX928"),
    "a seed copied, times in whole seconds": (
        OTHERS,
        seeds(
            TREATMENT, (1, 1, 2), (lambda step: 60 * times(1)(step), lambda step: round(60 * times(1)(step)), times(2))
        ),
        "RLX928",
    ),
    "a seed copied, times left out": (OTHERS, seeds(TREATMENT, (1, 1, 2), (times(1), None, times(2))), "RLX928"),
    "the control as the treatment, times left out": (
        [trained(CONTROL, 1, times(1))],
        [trained(TREATMENT, 1, None)],
        "RLX928",
    ),
    "the control as the treatment, times rounded": (
        [trained(CONTROL, 1, times(1))],
        [trained(TREATMENT, 1, rounded)],
        "RLX928",
    ),
    "a copy that was cut": (
        [trained(CONTROL, 1, times(1))],
        [trained(TREATMENT, 1, None, steps=15)],
        "RLX928",
    ),
    "two seeds alike": (OTHERS, seeds(TREATMENT, (1, 1, 2), (times(1), times(2), times(3))), "RLX929"),
    "all seeds alike": (OTHERS, seeds(TREATMENT, (1, 1, 1), (times(1), times(2), times(3))), "RLX929"),
    "seeds of the control alike": (
        seeds(CONTROL, (1, 1, 2), (times(1), times(2), times(3))),
        seeds(TREATMENT, (3, 4, 5), (times(4), times(5), times(6))),
        "RLX929",
    ),
    "a treatment without effect": ([trained(CONTROL, 1, times(1))], [trained(TREATMENT, 1, times(2))], "RLX930"),
}

HONEST: dict[str, tuple[list[JudgedRun], list[JudgedRun]]] = {
    "runs of their own": (OTHERS, seeds(TREATMENT, (1, 2, 3), (times(1), times(2), times(3)))),
    "a first stage without noise": (
        [trained(CONTROL, 1, times(1), equal_until=15)],
        [trained(TREATMENT, 2, times(2), equal_until=15)],
    ),
    "the last step alone differs": (
        [trained(CONTROL, 1, times(1), equal_until=19)],
        [trained(TREATMENT, 2, times(2), equal_until=19)],
    ),
    "few steps": ([trained(CONTROL, 1, times(1), steps=9)], [trained(TREATMENT, 1, times(2), steps=9)]),
    "three printed decimals": ([trained(CONTROL, 1, times(1), digits=3)], [trained(TREATMENT, 1, times(2), digits=3)]),
    "constant series": (
        [trained(CONTROL, 1, times(1), constant=True)],
        [trained(TREATMENT, 1, times(2), constant=True)],
    ),
    "a run that goes on": (
        [replace(trained(CONTROL, 1, times(1)), state=RunState.RUNNING)],
        [replace(trained(TREATMENT, 1, times(2)), state=RunState.RUNNING)],
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_equal_runs_are_seen(name: str) -> None:
    control, treatment, id = SEEN[name]
    comparison = compare(control, [treatment])
    assert ids(comparison) == {id}
    if id != "RLX930":
        assert only(comparison).test is None and comparison.outcome() is ExitCode.NOT_VERIFIED


@pytest.mark.parametrize("name", HONEST)
def test_honest_runs_are_left_alone(name: str) -> None:
    control, treatment = HONEST[name]
    assert not ids(compare(control, [treatment]))


def test_one_seed_repeated_on_purpose_is_named_as_that() -> None:
    again = [trained(TREATMENT, 1, times(number), seed=1) for number in (1, 2)]
    again[1] = replace(again[1], run_id="again")
    assert ids(compare(OTHERS, [again])) == {"RLX908"}


@pytest.mark.parametrize(("same", "expected"), [(True, 1), (False, 0)], ids=["copied", "own"])
def test_outputs_with_the_same_unique_ids(tmp_path: Path, same: bool, expected: int) -> None:
    """Runs too short for their metrics to tell, or printed with few digits."""
    runs = []
    for number in range(2):
        folder = tmp_path / str(number) / "validation"
        folder.mkdir(parents=True)
        for step in (0, 5):
            uid = f"021c8ac3-53b6-4c93-a7e0-{step + (0 if same else number):012x}_0_0"
            (folder / f"{step}.jsonl").write_text(json.dumps({"input": "1+1", "uid": uid}) + "\n", encoding="utf-8")
        runs.append(replace(trained(CONTROL, number, times(number), steps=6), latest=folder.parent))
    found = equal_runs(runs, ["one", "two"])
    assert len(found) == expected and all(pair.same_ids for pair in found)


def test_numbered_outputs_have_no_unique_ids(tmp_path: Path) -> None:
    runs = []
    for number in range(2):
        folder = tmp_path / str(number) / "validation"
        folder.mkdir(parents=True)
        (folder / "5.jsonl").write_text('{"uid": "17_0_0"}\nno JSON\n[1]\n', encoding="utf-8")
        runs.append(replace(trained(CONTROL, number, times(number), steps=6), latest=folder.parent))
    assert not equal_runs(runs, ["one", "two"])


@pytest.mark.parametrize(("of", "code"), [("control", ExitCode.NOT_VERIFIED), ("treatment", ExitCode.OK)])
def test_collapse_stands_beside_the_comparison(of: str, code: ExitCode) -> None:
    """What the treatment did is its result; a control that failed is none."""
    fell = Finding("RLX895", Severity.WARNING, "acc fell from 0.9 at step 10 to 0.1 at step 20", "", step=20)
    arms = {"control": trained(CONTROL, 1, times(1)), "treatment": trained(TREATMENT, 2, times(2))}
    arms[of] = replace(arms[of], verdict=replace(arms[of].verdict, findings=(fell,)))
    comparison = compare([arms["control"]], [[arms["treatment"]]])
    found = [finding for finding in only(comparison).findings if finding.id == "RLX931"]
    assert len(found) == (of == "control")
    assert comparison.outcome() is code
    assert comparison.outcome(allow_unverified=True) is ExitCode.OK
