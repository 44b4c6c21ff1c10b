"""Hold sigma that follows a measurement against what was measured: each record names what its sigma came from.

Which sigma follows from those numbers is computed again (`promised_noise.planned_sigmas`); another one is RLX603. Here
the numbers themselves are held against what the training logged of the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import is_resumed, sigma_at
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of, series
from rlx.evidence.run_evidence import LOG, Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, invalid, unverified
from rlx.model import NoiseSchedule

ROLES = {"gap": Role.PROBABILITY_GAP, "entropy": Role.ROLLOUT_ENTROPY}
# Both are the same number, which a log may round.
_RELATIVE = 1e-3
_CHECK_PAYLOAD = "is it the payload that the run was launched with?"


@dataclass(frozen=True)
class _Heard:
    """The measured steps, by what the records of the step after say of them beside the log."""

    other: dict[int, float] = field(default_factory=dict)
    unheard: list[int] = field(default_factory=list)
    unproven: list[int] = field(default_factory=list)


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge measurements that are not those of the log, or that never reached the noise."""
    if given.noise is None or (adaptive := given.noise.schedule.adaptive) is None:
        return
    evidence, found = given.evidence, given.noise.application
    metric = metric_of(evidence, ROLES[adaptive.target])
    logged = series(evidence, metric)
    heard = _heard(found, logged)
    if heard.other:
        step, value = next(iter(heard.other.items()))
        yield invalid(
            "RLX696",
            f"sigma followed another number than the run measured: {value:.4g} for step {step}, where {metric} is "
            f"{logged[step]:.4g}; at {at_steps(heard.other)}",
            _CHECK_PAYLOAD,
            step,
        )
    if heard.unheard:
        yield invalid(
            "RLX697",
            f"sigma stood still: what the run measured at {at_steps(heard.unheard)} ({metric}) never reached the noise",
            "does the trainer hand the measurement on to each process that generates?",
            heard.unheard[0],
        )
    yield from _unproven(evidence, metric, heard)


def _unproven(evidence: Evidence, metric: str, heard: _Heard) -> Iterator[Charge]:
    if is_resumed(evidence):
        yield unverified(
            "RLX698",
            "nothing shows what sigma followed: the run was resumed, where it begins anew at sigma_start",
            "compare a run that went through",
        )
    elif heard.unproven:
        yield unverified(
            "RLX698",
            f"nothing shows what sigma followed after {at_steps(heard.unproven)}: {metric or 'it'} is not logged there",
            "is the log complete, and does the rollout give probabilities that are numbers?",
            heard.unproven[0],
        )


def _heard(found: Application, logged: Mapping[int, float]) -> _Heard:
    heard = _Heard()
    for step, event in _moves(found):
        past = step - 1
        if past not in logged:
            heard.unproven.append(past)
        elif event.measured is None:
            heard.unheard.extend([past] if math.isfinite(logged[past]) else [])
        elif not math.isclose(event.measured, logged[past], rel_tol=_RELATIVE):
            heard.other.setdefault(past, event.measured)
    return heard


def _moves(found: Application) -> Iterator[tuple[int, NoiseEvent]]:
    """The records of noisy steps that come after a noisy step: only there a measurement decides."""
    for step in found.noisy:
        if sigma_at(found.sigmas, step - 1) > 0:
            yield from ((step, event) for event in found.at(step) if event.source != LOG)


def sentence(noise: NoiseSchedule, found: Application) -> Iterator[str]:
    """Say between which bounds sigma moved, and after what."""
    follows = noise.adaptive
    if follows is not None:
        sigmas = [sigma_at(found.sigmas, step) for step in found.noisy]
        yield (
            f"sigma {min(sigmas):.3g} to {max(sigmas):.3g} after the {follows.target} measured in each step, for "
            f"{follows.value:.4g}"
        )
