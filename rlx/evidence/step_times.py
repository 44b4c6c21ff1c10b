"""The time of a step, as every command means it.

It is what the trainer logs for the whole of a step: generation, reward, training, weight sync, and where the step has
them its validation and checkpoint. The usual step of a run is the median over all steps that it logged, so that steps
with a validation, and the first one, do not set it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import series
from rlx.evidence.run_evidence import Evidence

_LONGEST_S = 1e10
# The last steps tell the pace of now, for what is left: answers grow longer with the training.
_LATEST = 5


def step_times(evidence: Evidence) -> dict[int, float]:
    """step -> seconds, steps ascending; the first name of the back-end that has a time there counts."""
    found: dict[int, float] = {}
    for name in names_of(Role.STEP_SECONDS, evidence.backend):
        for step, seconds in series(evidence, name).items():
            if 0 < seconds < _LONGEST_S:
                found.setdefault(step, seconds)
    return dict(sorted(found.items()))


def usual_seconds(times: Sequence[float]) -> float | None:
    """The median; None without any."""
    return median(times) if times else None


def latest_seconds(times: Sequence[float]) -> float | None:
    """The median of the last five steps, by which the time that is left is estimated."""
    return usual_seconds(times[-_LATEST:])
