"""Object to values that were read by rules which no real log has confirmed, because they may not be the run's."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.grammars import grammars
from rlx.evidence.verdict import Charge, unverified


def check(given: CheckInput) -> Iterator[Charge]:
    if unproven := given.evidence.unproven:
        grep = next((each.unproven_grep for each in grammars() if each.unproven == unproven), "")
        fix = "hold some values against the log by eye: rlx logs RUN" + (f" --grep {grep}" if grep else "")
        yield unverified("RLX724", unproven, fix)
