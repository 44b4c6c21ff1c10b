"""Compute the noise that each step was promised, and the steps that can be held to it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlx.evidence.grammars import validation_prefixes
from rlx.evidence.metrics import metric_names, steps_with
from rlx.evidence.run_evidence import LOG, ROLLOUT, Evidence
from rlx.model import AdaptiveSigma, NoisePromise, NoiseSchedule

# The fork prints sigma with six decimals, half of the last one with room for binary fractions; the payload writes it in
# full.
_PRINTED = 0.51e-6
_RELATIVE = 1e-3
BUILTIN = "builtin"


def planned_sigmas(noise: NoiseSchedule, evidence: Evidence) -> tuple[float, ...]:
    """Sigma of each step from 1. For the payload as planned; for a fork, over the run's own number of steps.

    Sigma that follows a measurement is computed from those that the run recorded, step by step.

    The fork divides its own total, which a filtered data set makes differ from the plan's, and does so in floats,
    which puts some borders one step off (verl/utils/noise_injection.py, get_sigma_by_step). Those are the plan's
    sigmas still, so neither counts as a wrong sigma; the differing total is a finding of its own.
    """
    if noise.adaptive is not None:
        return _followed(noise, noise.adaptive, evidence)
    by_stage, total_steps = tuple(dict.fromkeys(noise.sigmas)), evidence.total_steps
    if noise.provider != BUILTIN or len(by_stage) != noise.stages or not total_steps:
        return noise.sigmas
    width = total_steps / noise.stages
    return tuple(by_stage[min(noise.stages - 1, int(index // width))] for index in range(total_steps))


def _followed(noise: NoiseSchedule, rule: AdaptiveSigma, evidence: Evidence) -> tuple[float, ...]:
    """Of a resumed run the recorded sigmas, since its processes begin anew; that is a finding of its own (RLX698)."""
    own = {event.step: event for event in evidence.noise if event.phase == ROLLOUT and event.source != LOG}
    if is_resumed(evidence):
        steps = enumerate(noise.sigmas, start=1)
        return tuple(own[step].sigma if planned and step in own else planned for step, planned in steps)
    measured = {step - 1: event.measured for step, event in own.items() if step and event.measured is not None}
    return rule.follow(noise.sigmas, measured)


def is_resumed(evidence: Evidence) -> bool:
    """Tell whether processes of the run began anew in its course."""
    return evidence.attempts > 1 or bool(evidence.restarts)


def promise_of(noise: NoiseSchedule) -> NoisePromise:
    """What the plan promises beyond sigma; nothing, for a plan of rlx 0.1 or 0.2."""
    return noise.promise or NoisePromise()


def sigma_at(sigmas: Sequence[float], step: int) -> float:
    """Sigma at a step counted from 1; 0.0 outside."""
    return sigmas[step - 1] if 1 <= step <= len(sigmas) else 0.0


def same_sigma(seen: float, planned: float, *, printed: bool) -> bool:
    """Compare up to how sigma is printed, where it comes from a printed line. NaN equals nothing."""
    return math.isclose(seen, planned, rel_tol=_RELATIVE, abs_tol=_PRINTED if printed else 0.0)


def training_steps(evidence: Evidence) -> list[int]:
    """The steps that the log reports a rollout for. A resumed run also logs a line with nothing but a validation."""
    prefixes = validation_prefixes()
    keys = (key for key in metric_names(evidence) if not key.startswith(prefixes))
    return [step for step in steps_with(evidence, keys) if step > 0]
