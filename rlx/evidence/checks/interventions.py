"""Name the commands of a user's script that were kept within its run: RLX746."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.verdict import CheckFinding, counted, remark
from rlx.model import Severity

_MOST_SHOWN = 5


def check(given: CheckInput) -> Iterator[CheckFinding]:
    made = given.evidence.interventions
    if made:
        told = list(dict.fromkeys(f"{each.command}: {each.done}" for each in made))
        shown = " | ".join(told[:_MOST_SHOWN])
        more = f" | and {len(told) - _MOST_SHOWN} more" if len(told) > _MOST_SHOWN else ""
        message = f"{counted(len(made), 'command')} of the script kept within this run: {shown}{more}"
        yield remark("RLX746", Severity.NOTE, message)
