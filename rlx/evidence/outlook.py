"""Say what may still become of a run that goes on, because every one of them is incomplete so far."""

from __future__ import annotations

from typing import NamedTuple

from rlx.evidence.verdict import CONTRADICTED, Verdict, VerdictStatus
from rlx.model import RunState, Severity

ON_TRACK = "on track"
HOPELESS = "cannot become valid"
_INTERIM = "RLX906"
# A run that nobody made a promise for is unverified at best, however it goes on.
_UNPROMISED = "RLX716"


class Outlook(NamedTuple):
    """`word`: of an ended run its verdict's. `why`: the finding that decided it, with its id; "" if there is none."""

    word: str
    why: str = ""


def outlook(verdict: Verdict, state: RunState) -> Outlook:
    """Tell healthy runs from those whose end is decided: what is wrong at a step that is past stays wrong."""
    if state.is_terminal or state is RunState.UNREACHABLE:
        return Outlook(verdict.word)
    open_yet = [finding for finding in verdict.findings if finding.id != _INTERIM and not finding.waived]
    errors = [finding for finding in open_yet if finding.severity is Severity.ERROR]
    why = next((f"{finding.message} ({finding.id})" for finding in errors or open_yet), "")
    if errors:
        return Outlook(HOPELESS, why)
    if verdict.dissent:
        return Outlook(f"{CONTRADICTED} so far", why)
    if verdict.status is VerdictStatus.UNVERIFIED or any(finding.id == _UNPROMISED for finding in open_yet):
        return Outlook(VerdictStatus.UNVERIFIED.value)
    return Outlook(ON_TRACK)
