"""Check that the metrics of a run do not contradict themselves."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.verdict import Charge, counted, unverified


def check(given: CheckInput) -> Iterator[Charge]:
    evidence = given.evidence
    if not evidence.disagreements:
        return
    first = evidence.disagreements[0]
    (one, other), (value, other_value) = first.sources, first.values
    yield unverified(
        "RLX709",
        f"{counted(len(evidence.disagreements), 'contradiction')} in the metrics; first: "
        f"{first.key} at step {first.step} is {value:g} in {one} and {other_value:g} in {other}",
        "did two runs write to one file?",
        first.step,
    )
