"""A treatment that arrived is valid; one that never arrived is named, in the configuration or in the metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlx
from rlx.evidence import Verdict
from rlx.evidence.traces import TraceStatus
from tests.evidence.grid.judged import outcome_of_pair
from tests.evidence.treatments import TREATMENTS, place_treatment

SHOWN = [name for name, treatment in TREATMENTS.items() if treatment.shown]
FILES = [name for name, treatment in TREATMENTS.items() if treatment.file]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def verdict() -> Verdict:
    """Return the verdict on the treated arm."""
    (_, treated) = rlx.compare("baseline", "aqn").runs
    return treated.verdict


def ids(found: Verdict) -> list[str]:
    return [finding.id for finding in found.findings]


@pytest.mark.parametrize("name", TREATMENTS)
def test_a_treatment_that_arrived_is_valid_and_named(name: str) -> None:
    treatment = TREATMENTS[name]
    place_treatment(treatment)
    found = verdict()
    assert (found.status, ids(found)) == ("valid", list(treatment.ids))
    (trace,) = (trace for trace in found.traces if trace.key == treatment.key)
    assert trace.shown is (TraceStatus.SHOWN if treatment.shown or treatment.file else TraceStatus.COMPOSED)
    assert treatment.key in found.sentence


@pytest.mark.parametrize("name", TREATMENTS)
def test_a_treatment_that_the_engine_did_not_compose_is_no_experiment(name: str) -> None:
    place_treatment(TREATMENTS[name], composed=False, logged=False)
    found = verdict()
    assert found.status == "invalid"
    assert "RLX644" in ids(found)


@pytest.mark.parametrize("name", SHOWN)
def test_a_treatment_that_the_metrics_do_not_show_is_named(name: str) -> None:
    """It stands in the configuration, and the run logs what it would have logged without."""
    place_treatment(TREATMENTS[name], logged=False)
    found = verdict()
    silent = name in ("KL in the loss", "KL in the reward")
    assert (found.status, {*ids(found)}) == (("unverified", {"RLX647"}) if silent else ("invalid", {"RLX646"}))


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_that_of_the_control_is_no_treatment(name: str) -> None:
    """It lies at the path that the arm sets, and its digest is that of the other arm."""
    place_treatment(TREATMENTS[name], logged=False)
    outcome = outcome_of_pair()
    assert outcome.status == "not comparable" and "RLX901" in outcome.ids
