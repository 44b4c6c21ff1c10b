"""Say what else than the correction took samples from the training: shown beside its rejection, never counted with it.

Filters of lengths and of groups without an advantage look at the answers and not at the noise, and back-ends log them
in different units: shares of the answers, groups, or batches that had to be generated for one step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from statistics import mean

from rlx.evidence.charges.training_signal import steps_without_spread
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import finite, metric_of, series
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import counted, percent

_SHARES = {
    Role.CLIP_RATIO: "of the answers ended at the length limit",
    Role.ABORTED_SAMPLES: "of the answers were aborted",
}


def beside(evidence: Evidence, steps: Collection[int]) -> str:
    """Say what other filters took at these steps, to be added to a sentence about a rejection; "" for nothing."""
    found = ", ".join((*_shares(evidence, steps), *_groups(evidence, steps)))
    return f"; beside it, and not counted: {found}" if found else ""


def _shares(evidence: Evidence, steps: Collection[int]) -> Iterator[str]:
    for role, words in _SHARES.items():
        shares = _at(evidence, role, steps)
        if any(shares):
            yield f"{percent(mean(shares))} {words}"


def _groups(evidence: Evidence, steps: Collection[int]) -> Iterator[str]:
    # A step at which no group was dropped is not logged with a zero.
    if dropped := sum(_at(evidence, Role.FILTERED_GROUPS, steps)):
        yield f"{dropped / len(steps):.3g} groups a step were dropped by a filter"
    batches = _at(evidence, Role.GENERATED_BATCHES, steps)
    if any(each > 1 for each in batches):
        yield f"{mean(batches):.3g} batches were generated for each step"
    if flat := steps_without_spread(evidence)[1].intersection(steps):
        yield f"no group had an advantage at {len(flat)} of {counted(len(steps), 'step')}"


def _at(evidence: Evidence, role: Role, steps: Collection[int]) -> list[float]:
    values = finite(series(evidence, metric_of(evidence, role)))
    return [values[step] for step in steps if step in values]
