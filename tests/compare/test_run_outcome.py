"""What a run's end means for its place: a result, its own failure, or its machine's."""

from __future__ import annotations

import pytest

from rlx.compare.run_outcome import outcome_of
from rlx.compare.run_slots import Outcome
from rlx.evidence import Verdict, VerdictStatus
from rlx.evidence.diagnosis import Hit, Kind, causes_of_machine, signatures
from rlx.findings import finding_row
from rlx.model import RunState

VALID = Verdict(VerdictStatus.VALID, (), "valid", "")
INVALID = Verdict(VerdictStatus.INVALID, (), "invalid: no noise", "")


def hit(id: str) -> Hit:
    (signature,) = [each for each in signatures() if each.id == id]
    row = finding_row(id)
    return Hit(id, signature.kind, row.en.title, row.en.reason, row.en.fix, row.source, 1, "")


UNKNOWN = Hit("RLX889", Kind.CAUSE, "an exception that no signature knows", "", "", "", 1, "")


@pytest.mark.parametrize(
    ("state", "verdict", "cause", "outcome"),
    [
        (RunState.RUNNING, VALID, None, Outcome.OPEN),
        (RunState.UNREACHABLE, VALID, None, Outcome.OPEN),
        (RunState.FINISHED, VALID, None, Outcome.RESULT),
        (RunState.FINISHED, INVALID, None, Outcome.FAILED),
        (RunState.LOST, INVALID, None, Outcome.FAILED),
        (RunState.FINISHED, Verdict(VerdictStatus.INCOMPLETE, (), "incomplete", ""), None, Outcome.FAILED),
        (RunState.STOPPED, VALID, hit("RLX877"), Outcome.FAILED),
        (RunState.FAILED, VALID, hit("RLX877"), Outcome.MACHINE),
        (RunState.FAILED, VALID, hit("RLX960"), Outcome.MACHINE),
        (RunState.FAILED, VALID, hit("RLX876"), Outcome.FAILED),
        (RunState.FAILED, VALID, hit("RLX815"), Outcome.FAILED),
        (RunState.FAILED, VALID, UNKNOWN, Outcome.FAILED),
        (RunState.FAILED, VALID, None, Outcome.FAILED),
        (RunState.LOST, VALID, None, Outcome.MACHINE),
        (RunState.LOST, VALID, hit("RLX865"), Outcome.MACHINE),
        (RunState.LOST, VALID, UNKNOWN, Outcome.FAILED),
    ],
)
def test_outcomes(state: RunState, verdict: Verdict, cause: Hit | None, outcome: Outcome) -> None:
    found, why = outcome_of(state, verdict, cause)
    assert found is outcome
    assert bool(why) == (outcome in (Outcome.FAILED, Outcome.MACHINE))
    if outcome is Outcome.MACHINE and cause is not None and cause.kind is Kind.CAUSE:
        assert why.startswith(cause.id)


def test_a_log_that_cannot_be_asked_decides_nothing() -> None:
    for state in (RunState.LOST, RunState.FAILED):
        assert outcome_of(state, VALID, None, is_explained=False)[0] is Outcome.OPEN


def test_what_ends_a_run_by_its_machine_is_a_cause_and_no_shortage_of_memory() -> None:
    rows = [row for row in signatures() if row.id in causes_of_machine()]
    assert rows and {row.kind for row in rows} == {Kind.CAUSE}
    assert not [row.id for row in rows if "memory" in finding_row(row.id).en.title]
