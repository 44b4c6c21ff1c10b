"""Give the noise of a fork its steps by the order of its lines, where the lines themselves name none.

Source: zhshgmail/verl up to cfb21db5, where weights are synced when a step begins to generate: what stands behind the
line of step a is of the rollout of step a + 1. A validation syncs once more, before the line of its step, with the
noise of the next. Sigma is the one that the trainer announces for the step, where it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from rlx.evidence.charges.promised_noise import BUILTIN, planned_sigmas, sigma_at
from rlx.evidence.metrics import validated_steps
from rlx.evidence.run_evidence import VALIDATION, Evidence, NoiseEvent
from rlx.model import NoiseSchedule

SINCE = 3
"""The first version of the rules that reads steps from the order of lines."""


def with_steps_by_order(evidence: Evidence, noise: NoiseSchedule | None) -> Evidence:
    """Return the evidence with steps for all noise of the log; unchanged where the lines name any, or order says less.

    Lines that Ray folded have lost their place.
    """
    if noise is None or noise.provider != BUILTIN:
        return evidence
    events = list(evidence.noise)
    if not events or any(event.step is not None or event.follows is None or event.folded for event in events):
        return evidence
    sigmas, validated = planned_sigmas(noise, evidence), set(validated_steps(evidence, None))
    # Lines of noise are printed for a sigma above 0 only: one that was announced as 0 is not that of such a line.
    announced = {said.step: said.sigma for said in evidence.announced if said.step is not None and said.sigma > 0}
    return replace(evidence, noise=tuple(_placed(event, sigmas, validated, announced) for event in events))


def _placed(event: NoiseEvent, sigmas: Sequence[float], validated: set[int], announced: dict[int, float]) -> NoiseEvent:
    step = (event.follows or 0) + 1
    if step in validated and sigma_at(sigmas, step) == 0 and sigma_at(sigmas, step + 1) > 0:
        return replace(event, phase=VALIDATION, step=step, sigma=announced.get(step + 1, math.nan))
    return replace(event, step=step, sigma=announced.get(step, math.nan))


def is_by_order(event: NoiseEvent) -> bool:
    """Tell whether the step of an event follows from the order of lines."""
    return event.follows is not None and event.step is not None
