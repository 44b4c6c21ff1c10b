"""A back-end's folder and its row are all that its logs take to be read, judged, compared and explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlx.backends.registry import PACKAGES
from rlx.compare.difference_areas import ConfigDifference, DifferenceArea, area_of
from rlx.compare.evaluation_conditions import Condition, Measure
from rlx.compare.pace import pace
from rlx.evidence import Evidence, RunTotals, VerdictStatus, core_metric, judge, needles, read_evidence, read_log
from rlx.evidence.checks.gap_test import gap_metric
from rlx.evidence.diagnosis import Quiet, collapses, signatures, stalls
from rlx.model import Expectations, NoiseSchedule, RunState
from rlx.runs.judging.parser_cache import ParsedFiles
from tests.compare.builders import RunBuilder, one_run_each, only

CORE = "heldout/sums/acc/mean@1"
PLANNED = Expectations(4, (2, 4), True, 10, 1, "auto", None, False)


@pytest.fixture
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGES, "toy", "tests.evidence.toy_backend")


pytestmark = pytest.mark.usefixtures("_toy")


def log_of(*, until: int = 4, best: float = 0.6) -> str:
    rounds = [f"round {step} of 4 | reward=0.{step} | seconds=2.0 | tokens=300" for step in range(1, until + 1)]
    values = {2: 0.5, 4: best}
    for step in [step for step in (4, 2) if step <= until]:
        rounds.insert(step, f"held out after round {step} of 4 | {CORE}={values[step]}")
    return "".join(f"{line}\n" for line in ("toy starts", *rounds))


def read(folder: Path, text: str) -> Evidence:
    (folder / "log").write_text(text, encoding="utf-8")
    return replace(read_log(folder / "log", finished=True), backend="toy")


def test_its_log_is_read(tmp_path: Path) -> None:
    evidence = read(tmp_path, log_of())
    assert {step: values.get(CORE) for step, values in evidence.metrics.items()} == {1: None, 2: 0.5, 3: None, 4: 0.6}
    assert evidence.totals == RunTotals(total_steps=4)
    assert evidence.unproven == "" and b"round " in needles()


def test_without_its_row_the_log_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PACKAGES, "toy")
    assert not read(tmp_path, log_of()).metrics


def test_what_was_kept_of_a_log_is_read_anew_with_another_grammar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run := tmp_path / "1").mkdir()
    (run / "log").write_text(log_of(), encoding="utf-8")
    monkeypatch.setattr("rlx.evidence.cache.file_digest.SETTLED_S", 0)
    monkeypatch.delitem(PACKAGES, "toy")
    assert not read_evidence([run], ParsedFiles(tmp_path)).metrics
    monkeypatch.setitem(PACKAGES, "toy", "tests.evidence.toy_backend")
    assert list(read_evidence([run], ParsedFiles(tmp_path)).metrics) == [1, 2, 3, 4]


def test_it_is_judged_by_its_core_metric(tmp_path: Path) -> None:
    evidence = read(tmp_path, log_of())
    verdict = judge(evidence, PLANNED, RunState.FINISHED, arm="baseline")
    assert core_metric(evidence, PLANNED) == CORE
    assert verdict.status is VerdictStatus.VALID, verdict.sentence
    short = judge(read(tmp_path, log_of(until=3)), PLANNED, RunState.FINISHED, arm="baseline")
    assert {"RLX701", "RLX702"} <= {finding.id for finding in short.findings}


def test_values_that_fit_no_number_of_rows_are_told(tmp_path: Path) -> None:
    verdict = judge(read(tmp_path, log_of(best=0.61234)), PLANNED, RunState.FINISHED, arm="baseline")
    assert "RLX708" in {finding.id for finding in verdict.findings}


def test_a_second_witness_is_missed_by_the_name_that_it_has_there(tmp_path: Path) -> None:
    evidence = read(tmp_path, log_of())
    assert gap_metric(evidence) == "drift"
    noise = NoiseSchedule((0.0, 0.0, 0.1, 0.1), 2, ("rmsnorm",), "payload", False)
    verdict = judge(evidence, replace(PLANNED, noise=noise), RunState.FINISHED, arm="aqn")
    assert "RLX601" in {finding.id for finding in verdict.findings}


def test_its_runs_are_compared(tmp_path: Path) -> None:
    evidence = read(tmp_path, log_of())
    assert pace(evidence, 1).tokens_per_second == 150
    arms = {arm: read(tmp_path, log_of(best=best)) for arm, best in (("baseline", 0.6), ("fast", 0.7))}
    control, treatment = (
        RunBuilder(
            arm=arm,
            series={0: 0.0, 4: 0.0},
            metrics=found.metrics,
            rows=10,
            planned_rows=10,
            recipe={"train": {"lr": len(arm)}},
            treatment=("train.lr",),
        ).judged()
        for arm, found in arms.items()
    )
    comparison = one_run_each(control, [treatment])
    assert comparison.metric == CORE and comparison.is_share
    assert only(comparison).test is not None, only(comparison).no_test


def test_its_keys_have_an_area() -> None:
    assert area_of("package toy") is DifferenceArea.CODE
    assert area_of("overrides.heldout_rows") is DifferenceArea.EVALUATION


def test_its_keys_decide_what_an_evaluation_must_have_in_common() -> None:
    keys = ("overrides.heldout_temperature", "config heldout_temperature", "overrides.heldout_rows")
    found = Measure(CORE).broken(ConfigDifference(key, 0, 1) for key in keys)
    assert {condition: [item.key for item in items] for condition, items in found.items()} == {
        Condition.SAMPLING: list(keys[:2])
    }


def test_its_failures_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert signatures()[-1].id != "RLX999"
    assert any(row.knows("ToyError: out of blocks") for row in signatures())
    monkeypatch.delitem(PACKAGES, "toy")
    assert not any(row.knows("ToyError: out of blocks") for row in signatures())


def test_its_collapses_and_hangs_are_told(tmp_path: Path) -> None:
    rewards = [1.0] * 30 + [0.0] * 30
    text = "".join(f"round {step} of 61 | reward={score} | seconds=1.0\n" for step, score in enumerate(rewards, 1))
    evidence = read(tmp_path, text)
    assert [finding.message.split()[0] for finding in collapses(evidence)] == ["reward"]
    (found,) = stalls(evidence, replace(PLANNED, validation_steps=()), Quiet(step_s=9000.0))
    assert found.fix is not None and found.fix.startswith("Toy ")
