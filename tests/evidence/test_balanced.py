"""The records of one run agree: edited runs that must be seen, and honest ones that look alike, on values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.evidence import Evidence, judge, judge_unplanned, read_evidence
from rlx.evidence.reading.console import ConsoleParser
from rlx.evidence.run_evidence import AttemptTime, FaultKind, LoggedFault, Restart, RunTotals
from rlx.evidence.traces import Setup
from rlx.model import Expectations, RunState
from rlx.model.run_dir import EXIT_FILE, LOG_FILE, PROVENANCE_FILE, STATE_DIR
from tests.evidence.test_traces import tree

STEPS = range(1, 21)
BALANCED = {f"RLX{number}" for number in range(750, 760)}
ACC, REWARD, ONLY = "val-core/x/acc/mean@1", "val-aux/x/reward/mean@1", "val-aux/x/acc_success_only/mean@1"
VALUES = {0: 0.45, 5: 0.86, 10: 0.88, 15: 0.87, 20: 0.89}
ASYNCHRONOUS = {"staleness_threshold": 0.5}
By = Callable[[int], float] | float


def metrics(**changes: By) -> dict[int, dict[str, float]]:
    """Make what a synchronous training logs; a keyword is a name with `__` for its slash."""
    usual: dict[str, By] = {
        "training/global_step": lambda step: step,
        "training/epoch": lambda step: (step - 1) // 10,
        "timing_s/step": lambda step: 5.0 + step / 7,
        "perf/total_num_tokens": lambda step: 2400.0 + step,
        "perf/throughput": lambda step: (2400 + step) / (5 + step / 7) / 2,
        "training/off_policy/trajectory_staleness/mean": 0.0,
        "response/aborted_ratio": 0.0,
        "response_length/clip_ratio": 0.01,
        **{name.replace("__", "/"): value for name, value in changes.items()},
    }
    return {
        step: {name: float(value(step) if callable(value) else value) for name, value in usual.items()}
        for step in STEPS
    }


def validated(acc: Mapping[int, float], others: Mapping[str, Mapping[int, float]]) -> dict[int, dict[str, float]]:
    found = {0: dict[str, float](), **metrics()}
    for name, values in {ACC: acc, **others}.items():
        for step, value in values.items():
            found[step][name] = value
    return found


def run(logged: Mapping[int, Mapping[str, float]] | None = None, **parts: Any) -> Evidence:
    return replace(Evidence(metrics=metrics() if logged is None else logged, backend="verl"), **parts)


def setup(train_rows: int = 400, **settings: object) -> Setup:
    return Setup({"data": {"train_rows": train_rows}}, (), tree(**settings), True, frozenset())


def ids(evidence: Evidence, given: Setup | None = None) -> set[str]:
    """Return the ids of this check in the verdict of a run with that setup."""
    expectations = Expectations(20, (), False, None, 1, "auto", None, False)
    verdict = judge(evidence, expectations, RunState.FINISHED, arm="hot", setup=given or setup())
    return {finding.id for finding in verdict.findings} & BALANCED


def lasted(begun: float | None, ended: float | None, attempts: int = 1, number: int = 1) -> Evidence:
    return run(attempts=attempts, times=(AttemptTime(number, begun, ended, 20, 130.0),))


SEEN: dict[str, tuple[Evidence, Setup, str]] = {
    "shorter than its steps": (lasted(1000.0, 1009.0), setup(), "RLX750"),
    "ended before it began": (lasted(1000.0, 900.0), setup(), "RLX750"),
    "shorter than its steps by a tenth": (lasted(1000.0, 1112.0), setup(), "RLX750"),
    "each step twice": (run(metrics(training__global_step=lambda step: (step + 1) // 2)), setup(), "RLX751"),
    "the step goes back": (run(metrics(training__global_step=lambda step: step % 12)), setup(), "RLX751"),
    "ten steps left out": (
        run(metrics(training__global_step=lambda step: step if step < 11 else step + 10)),
        setup(),
        "RLX751",
    ),
    "the epoch falls": (run(metrics(training__epoch=lambda step: 1 if step < 11 else 0)), setup(), "RLX751"),
    "accuracy above that of what came": (
        run(validated(VALUES | {20: 0.99}, {ONLY: VALUES})),
        setup(),
        "RLX752",
    ),
    "one value edited": (run(validated(VALUES | {20: 0.99}, {REWARD: VALUES})), setup(), "RLX753"),
    "one value edited before the end": (run(validated(VALUES | {10: 0.8}, {REWARD: VALUES})), setup(), "RLX753"),
    "tokens of another run": (
        run(metrics(perf__total_num_tokens=lambda step: 600.0 + step)),
        setup(),
        "RLX754",
    ),
    "times of another run": (run(metrics(timing_s__step=lambda step: 9.0 - step / 7)), setup(), "RLX754"),
    "speed edited at one step": (
        run(metrics(perf__throughput=lambda step: (2400 + step) / (5 + step / 7) / (2 if step != 8 else 3))),
        setup(),
        "RLX754",
    ),
    "half of the answers aborted": (run(metrics(response__aborted_ratio=0.5)), setup(), "RLX755"),
    "all answers cut": (run(metrics(response_length__clip_ratio=1.0)), setup(), "RLX755"),
    "answers of older weights": (
        run(metrics(training__off_policy__trajectory_staleness__mean=4.0)),
        setup(),
        "RLX756",
    ),
    "rewards failed": (run(faults=(LoggedFault(FaultKind.REWARD, 400, "Error"),)), setup(), "RLX757"),
    "resumed without its optimizer": (
        run(faults=(LoggedFault(FaultKind.OPTIMIZER, 1, "not loaded"),), restarts=(Restart(2, 10, "resumed"),)),
        setup(),
        "RLX758",
    ),
    "half of the rows": (run(totals=RunTotals(20, 200, 100)), setup(), "RLX759"),
    "more rows than planned": (run(totals=RunTotals(20, 401, 100)), setup(), "RLX759"),
    "fewer rows without a filter": (
        run(totals=RunTotals(20, 390, 100)),
        setup(data__filter_overlong_prompts=False),
        "RLX759",
    ),
}

HONEST: dict[str, tuple[Evidence, Setup]] = {
    "plain": (run(validated(VALUES, {REWARD: VALUES, ONLY: VALUES}), totals=RunTotals(20, 400, 100)), setup()),
    "longer than its steps": (lasted(1000.0, 1400.0), setup()),
    "as long as its steps, by whole seconds": (lasted(1000.4, 1128.0), setup()),
    "no record of its begin": (lasted(None, 1009.0), setup()),
    "an attempt that was lost": (lasted(1000.0, 900.0, attempts=2), setup()),
    "steps that overlap": (lasted(1000.0, 1009.0), setup(async_training=ASYNCHRONOUS)),
    "nobody knows the mode": (lasted(1000.0, 1009.0), Setup()),
    "counted from 0": (run(metrics(training__global_step=lambda step: step - 1)), setup()),
    "several local steps a sync": (
        run(metrics(training__global_step=lambda step: 4 * step)),
        setup(async_training=ASYNCHRONOUS),
    ),
    "an epoch again after a restart": (
        run(metrics(training__epoch=lambda step: int(step < 11)), restarts=(Restart(2, 10, "resumed"),)),
        setup(),
    ),
    "answers that failed": (
        run(validated({step: value - 0.1 for step, value in VALUES.items()}, {ONLY: VALUES})),
        setup(),
    ),
    "credit for the format": (
        run(validated(VALUES, {REWARD: {step: 0.9 * value + 0.1 for step, value in VALUES.items()}})),
        setup(),
    ),
    "a penalty from the middle on": (run(validated(VALUES, {REWARD: VALUES | {15: 0.85, 20: 0.84}})), setup()),
    "printed with three decimals": (
        run({step: {key: round(value, 3) for key, value in values.items()} for step, values in metrics().items()}),
        setup(),
    ),
    "other devices after a restart": (
        run(
            metrics(perf__throughput=lambda step: (2400 + step) / (5 + step / 7) / (2 if step < 11 else 4)),
            restarts=(Restart(2, 10, "resumed"),),
        ),
        setup(),
    ),
    "one answer aborted now and then": (
        run(metrics(response__aborted_ratio=lambda step: 0.2 if step % 4 == 0 else 0.0)),
        setup(),
    ),
    "answers cut at the end only": (
        run(metrics(response_length__clip_ratio=lambda step: step / 20)),
        setup(),
    ),
    "older weights, declared": (
        run(metrics(training__off_policy__trajectory_staleness__mean=4.0)),
        setup(async_training=ASYNCHRONOUS),
    ),
    "older weights at one step": (
        run(metrics(training__off_policy__trajectory_staleness__mean=lambda step: float(step == 11))),
        setup(),
    ),
    "an optimizer that begins anew with the training": (
        run(faults=(LoggedFault(FaultKind.OPTIMIZER, 1, "no optimizer state"),)),
        setup(),
    ),
    "fewer rows than the file has, by a setting": (
        run(totals=RunTotals(20, 100, 100)),
        setup(data__train_max_samples=100),
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_edited_run_is_seen(name: str) -> None:
    evidence, given, id = SEEN[name]
    assert id in ids(evidence, given)


@pytest.mark.parametrize("name", HONEST)
def test_honest_run_is_left_alone(name: str) -> None:
    assert not ids(*HONEST[name])


def test_speed_by_another_definition_is_a_warning() -> None:
    """As a fork may count other devices, or the time without the validation, alike at all steps."""
    logged = metrics(perf__throughput=lambda step: (2400 + step) / (5 + step / 7) * 0.65)
    verdict = judge(
        run(logged),
        Expectations(20, (), False, None, 1, "auto", None, False),
        RunState.FINISHED,
        arm="a",
        setup=setup(),
    )
    assert not verdict.dissent
    assert [each.severity for each in verdict.findings if each.id in BALANCED] == ["warning"]


def test_filter_of_long_prompts_is_a_note() -> None:
    expectations = Expectations(20, (), False, None, 1, "auto", None, False)
    evidence = run(totals=RunTotals(20, 390, 100))
    verdict = judge(evidence, expectations, RunState.FINISHED, arm="hot", setup=setup())
    assert [(each.id, each.severity) for each in verdict.findings if each.id in BALANCED] == [("RLX759", "note")]


def test_contradiction_excludes_the_numbers_of_an_imported_log() -> None:
    """No recipe says how it was trained; that an accuracy is above its bound holds in every mode."""
    evidence = run(validated(VALUES | {20: 0.99}, {ONLY: VALUES}), backend="")
    expectations = Expectations(None, (), False, None, 1, "auto", None, False)
    verdict = judge_unplanned(evidence, expectations, RunState.FINISHED)
    assert "RLX752" in {finding.id for finding in verdict.findings}
    assert verdict.exclusion(ended=True) == "contradicted"


@pytest.mark.parametrize(
    ("line", "kind", "count"),
    [
        ("Error in reward computation: ValueError: could not convert", FaultKind.REWARD, 1),
        ("Reward computation failed for data_source=x: division by zero. Response", FaultKind.REWARD, 1),
        ("Reward computation timed out after 30s for data_source=x.", FaultKind.REWARD, 1),
        ("[Timeout] Global reward scoring timed out. Setting all as 0.", FaultKind.REWARD, 1),
        ("Error in math_verify compute_score: bad \x1b[32m [repeated 7x across cluster]\x1b[0m", FaultKind.REWARD, 7),
        ("Warning: optim_rank_0.pt not found, optimizer state is not loaded", FaultKind.OPTIMIZER, 1),
        ("3 optimizer state entries are absent from the checkpoint and keep their initial value", None, 0),
        ("saving the optimizer state to /x/optim.pt", None, 0),
        ("reward computation took 3.2 s, no error", None, 0),
    ],
)
def test_faults_that_the_log_names(line: str, kind: FaultKind | None, count: int) -> None:
    parser = ConsoleParser()
    parser.feed(f"\x1b[36m(Worker pid=7)\x1b[0m {line}\n".encode())
    assert [(fault.kind, fault.number) for fault in parser.faults] == ([(kind, count)] if kind else [])
    again = ConsoleParser()
    again.restore(json.loads(json.dumps(parser.state())))
    assert again.faults == parser.faults


def test_times_of_an_attempt_are_read(tmp_path: Path) -> None:
    attempt = tmp_path / "1"
    (attempt / STATE_DIR).mkdir(parents=True)
    (attempt / LOG_FILE).write_text("step:1 - timing_s/step:4.5\nstep:2 - timing_s/step:3.5\n", encoding="utf-8")
    (attempt / PROVENANCE_FILE).write_text('{"time": "2026-11-17T12:30:40Z"}', encoding="utf-8")
    (attempt / STATE_DIR / EXIT_FILE).write_text("0 leader 1794918700 17.5\n", encoding="utf-8")
    assert read_evidence([attempt]).times == (AttemptTime(1, 1794918640.0, 1794918700.0, 2, 8.0),)
    (attempt / PROVENANCE_FILE).write_text('{"time": [1]}', encoding="utf-8")
    (attempt / STATE_DIR / EXIT_FILE).write_text("0\n", encoding="utf-8")
    assert read_evidence([attempt]).times == (AttemptTime(1, None, None, 2, 8.0),)


HUNDREDTHS, OF_1319 = {0: 0.45, 5: 0.86, 10: 0.91}, {0: 589 / 1319, 5: 1132 / 1319, 10: 1200 / 1319}


@pytest.mark.parametrize(
    ("values", "grad_norm", "is_seen"),
    [
        (HUNDREDTHS, 1.2345678, True),
        ({0: 0.5, 5: 0.75}, 1.2345678, True),
        (HUNDREDTHS, 1.235, False),
        (OF_1319, 1.2345678, False),
        ({step: round(value, 3) for step, value in OF_1319.items()}, 1.235, False),
    ],
    ids=["hundredths", "quarters", "printed with three decimals", "of that many items", "rounded shares"],
)
def test_number_of_items_that_an_import_claims(values: Mapping[int, float], grad_norm: float, is_seen: bool) -> None:
    """A log that prints all digits of its other metrics prints those of an accuracy, too."""
    logged = {step: {ACC: value} for step, value in values.items()}
    logged[11] = {"actor/grad_norm": grad_norm}
    expectations = Expectations(None, (), False, 1319, 1, "auto", None, False)
    verdict = judge_unplanned(Evidence(metrics=logged), expectations, RunState.FINISHED)
    assert ("RLX708" in {finding.id for finding in verdict.findings}) == is_seen
