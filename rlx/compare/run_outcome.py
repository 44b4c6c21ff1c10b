"""Tell whether a run has a result, failed by itself, or was ended by its machine."""

from __future__ import annotations

from rlx.compare.run_slots import Outcome
from rlx.evidence import Verdict, VerdictStatus
from rlx.evidence.diagnosis import Hit, Kind, causes_of_machine
from rlx.model import RunState

_NOBODY_RECORDED = "nobody recorded an end, and its log names no cause"


def outcome_of(
    state: RunState, verdict: Verdict, cause: Hit | None, *, is_explained: bool = True
) -> tuple[Outcome, str]:
    """The outcome of a run, and why, in words with the id of the cause.

    `cause`: what its log says ended it, as `rlx diagnose` finds it, None where it names nothing; `is_explained` is
    False where the log could not be asked, and then nothing is decided. What somebody stopped, and what is invalid,
    failed.
    """
    if not state.is_terminal:
        return Outcome.OPEN, ""
    if verdict.status is VerdictStatus.INVALID or state is RunState.FINISHED:
        is_result = state is RunState.FINISHED and verdict.is_result(ended=True)
        return (Outcome.RESULT, "") if is_result else (Outcome.FAILED, verdict.sentence)
    if state is RunState.STOPPED:
        return Outcome.FAILED, "somebody stopped it"
    if not is_explained:
        return Outcome.OPEN, "its log cannot be asked why it ended"
    return _by_cause(state, cause if cause is not None and cause.kind is Kind.CAUSE else None)


def _by_cause(state: RunState, cause: Hit | None) -> tuple[Outcome, str]:
    """A lost run whose log names no cause is the machine's: a host that goes down takes the record of the end along."""
    if cause is not None:
        by = Outcome.MACHINE if cause.id in causes_of_machine() else Outcome.FAILED
        return by, f"{cause.id} {cause.name}"
    if state is RunState.LOST:
        return Outcome.MACHINE, _NOBODY_RECORDED
    return Outcome.FAILED, "its log names no cause"
