"""Check that the run came to its end."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.diagnosis.endings import kills_words
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, incomplete
from rlx.model import Expectations, RunState

_ENDS = {RunState.FAILED: "RLX801", RunState.STOPPED: "RLX802", RunState.LOST: "RLX803"}
SEE_WHY = "see why (rlx diagnose RUN); rlx retry RUN begins another attempt"


def check(given: CheckInput) -> Iterator[Charge]:
    evidence, state = given.evidence, given.state
    where = reached(evidence, given.expectations)
    if not state.is_terminal:
        yield incomplete("RLX906", f"interim: the run is {state}, {where}", "wait for its end")
    if state in _ENDS:
        why = _short_of_memory(evidence, state)
        yield incomplete(_ENDS[state], f"the run {_ended(state)} after {where}{why}", SEE_WHY)


def _short_of_memory(evidence: Evidence, state: RunState) -> str:
    """What the kernel did while it ran; of a run that somebody stopped, it is not why it ended."""
    if state is RunState.STOPPED or not evidence.memory_kills:
        return ""
    return f"; {kills_words(evidence.memory_kills)} (rlx diagnose: RLX888)"


def _ended(state: RunState) -> str:
    return {RunState.FAILED: "failed", RunState.STOPPED: "was stopped"}.get(state, "was lost")


def total_steps(evidence: Evidence, expectations: Expectations) -> int | None:
    """The step at which the run ends: what it says itself, else what was planned."""
    return evidence.total_steps or expectations.total_steps


def reached(evidence: Evidence, expectations: Expectations) -> str:
    """`step 7 of 20`."""
    total = total_steps(evidence, expectations)
    return f"step {evidence.last_step}" + (f" of {total}" if total else "")
