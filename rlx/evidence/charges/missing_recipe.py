"""Report that no recipe says what a run promised, because nothing else can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.verdict import Charge, counted, unverified


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge that nobody promised what the run is held to, with the validations that were read instead, if any."""
    yield from (replace(charge, is_missing=True) for charge in _missing(given))


def _missing(given: CheckInput) -> Iterator[Charge]:
    expectations = given.expectations
    if not expectations.is_read:
        yield unverified(
            "RLX716", "no recipe: nothing says what it promised, its noise included", "take it in with --recipe"
        )
        return
    steps = expectations.validation_steps
    due = f"{counted(len(steps), 'validation')}, the last at step {steps[-1]}" if steps else "no validation"
    yield unverified(
        "RLX716",
        f"no recipe: it is held to the configuration that its log prints, which is read and not promised ({due})",
        "only a recipe promises: rlx import or rlx adopt with --recipe, or rlx launch RECIPE",
    )
