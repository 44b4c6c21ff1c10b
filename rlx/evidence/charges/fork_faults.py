"""Report faults of forks that their own lines give away, so that a verdict names the cause."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.grammars import grammars
from rlx.evidence.verdict import Charge


def check(given: CheckInput) -> Iterator[Charge]:
    if given.noise is None:
        return
    for each in grammars(given.evidence.backend):
        yield from each.noise_faults(given.evidence, given.noise.application)
