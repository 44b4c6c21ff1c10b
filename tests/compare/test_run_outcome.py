"""What a run's end means for its place: a result, its own failure, or its machine's."""

from __future__ import annotations

import pytest

from rlx.compare.slot_assignment import RunOutcome, outcome_of
from rlx.evidence import Verdict, VerdictStatus
from rlx.evidence.diagnosis import Hit, SignatureKind, causes_of_machine, signatures
from rlx.findings import finding_row
from rlx.model import RunState

VALID = Verdict(VerdictStatus.VALID, (), "valid", "")
INVALID = Verdict(VerdictStatus.INVALID, (), "invalid: no noise", "")


def hit(id: str) -> Hit:
    (signature,) = [each for each in signatures() if each.id == id]
    row = finding_row(id)
    return Hit(id, signature.kind, row.en.title, row.en.reason, row.en.fix, row.source, 1, "")


UNKNOWN = Hit("RLX889", SignatureKind.CAUSE, "an exception that no signature knows", "", "", "", 1, "")


@pytest.mark.parametrize(
    ("state", "verdict", "cause", "outcome"),
    [
        (RunState.RUNNING, VALID, None, RunOutcome.OPEN),
        (RunState.UNREACHABLE, VALID, None, RunOutcome.OPEN),
        (RunState.FINISHED, VALID, None, RunOutcome.RESULT),
        (RunState.FINISHED, INVALID, None, RunOutcome.FAILED),
        (RunState.LOST, INVALID, None, RunOutcome.FAILED),
        (RunState.FINISHED, Verdict(VerdictStatus.INCOMPLETE, (), "incomplete", ""), None, RunOutcome.FAILED),
        (RunState.STOPPED, VALID, hit("RLX877"), RunOutcome.FAILED),
        (RunState.FAILED, VALID, hit("RLX877"), RunOutcome.MACHINE),
        (RunState.FAILED, VALID, hit("RLX960"), RunOutcome.MACHINE),
        (RunState.FAILED, VALID, hit("RLX876"), RunOutcome.FAILED),
        (RunState.FAILED, VALID, hit("RLX815"), RunOutcome.FAILED),
        (RunState.FAILED, VALID, UNKNOWN, RunOutcome.FAILED),
        (RunState.FAILED, VALID, None, RunOutcome.FAILED),
        (RunState.LOST, VALID, None, RunOutcome.MACHINE),
        (RunState.LOST, VALID, hit("RLX865"), RunOutcome.MACHINE),
        (RunState.LOST, VALID, UNKNOWN, RunOutcome.FAILED),
    ],
)
def test_outcomes(state: RunState, verdict: Verdict, cause: Hit | None, outcome: RunOutcome) -> None:
    found, why = outcome_of(state, verdict, cause)
    assert found is outcome
    assert bool(why) == (outcome in (RunOutcome.FAILED, RunOutcome.MACHINE))
    if outcome is RunOutcome.MACHINE and cause is not None and cause.kind is SignatureKind.CAUSE:
        assert why.startswith(cause.id)


def test_a_log_that_cannot_be_asked_decides_nothing() -> None:
    for state in (RunState.LOST, RunState.FAILED):
        assert outcome_of(state, VALID, None, is_explained=False)[0] is RunOutcome.OPEN


def test_what_ends_a_run_by_its_machine_is_a_cause_and_no_shortage_of_memory() -> None:
    rows = [row for row in signatures() if row.id in causes_of_machine()]
    assert rows and {row.kind for row in rows} == {SignatureKind.CAUSE}
    # Of an NPU, the host, a KV cache, the rollout, a GPU, shared memory and CANN.
    assert not {"RLX804", "RLX815", "RLX816", "RLX817", "RLX876", "RLX878", "RLX951"} & {row.id for row in rows}
