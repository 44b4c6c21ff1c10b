"""Check that a sigma that follows a measurement follows what the training logged.

Each record contains the number that its sigma was computed from. The sigma itself is computed again
(`noise_by_step.planned_sigmas`); another one is RLX603. Here the numbers are compared with the logged metric of the
same steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import Application, is_resumed, sigma_at
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of, series
from rlx.evidence.run_evidence import LOG, Evidence, NoiseEvent
from rlx.evidence.verdict import CheckFinding, at_steps, invalid, unverified
from rlx.model import NoiseSchedule

ROLES = {"gap": Role.PROBABILITY_GAP, "entropy": Role.ROLLOUT_ENTROPY}
# Both are one number, which a log may round.
_RELATIVE = 1e-3
_CHECK_PAYLOAD = "check that it is the payload that the run was launched with"


@dataclass(frozen=True)
class _Compared:
    """The measured steps, by how the records of the next step compare with the log."""

    other: dict[int, float] = field(default_factory=dict)
    unused: list[int] = field(default_factory=list)
    unproven: list[int] = field(default_factory=list)


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report measurements that differ from the log, or that never reached the noise."""
    if given.noise is None or (adaptive := given.noise.schedule.adaptive) is None:
        return
    evidence, found = given.evidence, given.noise.application
    metric = metric_of(evidence, ROLES[adaptive.target])
    logged = series(evidence, metric)
    compared = _compared(found, logged)
    if compared.other:
        step, value = next(iter(compared.other.items()))
        yield invalid(
            "RLX696",
            f"sigma followed a number that the run did not measure: {value:.4g} for step {step}, where {metric} is "
            f"{logged[step]:.4g}; at {at_steps(compared.other)}",
            _CHECK_PAYLOAD,
            step,
        )
    if compared.unused:
        yield invalid(
            "RLX697",
            f"sigma did not change: what the run measured at {at_steps(compared.unused)} ({metric}) never reached "
            "the noise",
            "does the trainer pass the measurement to each process that generates?",
            compared.unused[0],
        )
    yield from _unproven(evidence, metric, compared)


def _unproven(evidence: Evidence, metric: str, compared: _Compared) -> Iterator[CheckFinding]:
    if is_resumed(evidence):
        yield unverified(
            "RLX698",
            "nothing shows what sigma followed: the run was resumed, and sigma then starts again at sigma_start",
            "compare a run without an interruption",
        )
    elif compared.unproven:
        yield unverified(
            "RLX698",
            f"nothing shows what sigma followed after {at_steps(compared.unproven)}: {metric or 'it'} is not "
            "logged there",
            "is the log complete, and does the rollout return finite probabilities?",
            compared.unproven[0],
        )


def _compared(found: Application, logged: Mapping[int, float]) -> _Compared:
    compared = _Compared()
    for step, event in _deciding_records(found):
        past = step - 1
        if past not in logged:
            compared.unproven.append(past)
        elif event.measured is None:
            compared.unused.extend([past] if math.isfinite(logged[past]) else [])
        elif not math.isclose(event.measured, logged[past], rel_tol=_RELATIVE):
            compared.other.setdefault(past, event.measured)
    return compared


def _deciding_records(found: Application) -> Iterator[tuple[int, NoiseEvent]]:
    """Yield the records of noisy steps after a noisy step: only there a measurement decides."""
    for step in found.noisy:
        if sigma_at(found.sigmas, step - 1) > 0:
            yield from ((step, event) for event in found.at(step) if event.source != LOG)


def sentence(noise: NoiseSchedule, found: Application) -> Iterator[str]:
    """State the range of sigma, and what it followed."""
    follows = noise.adaptive
    if follows is not None:
        sigmas = [sigma_at(found.sigmas, step) for step in found.noisy]
        yield (
            f"sigma {min(sigmas):.3g} to {max(sigmas):.3g} after the {follows.target} measured in each step, for "
            f"{follows.value:.4g}"
        )
