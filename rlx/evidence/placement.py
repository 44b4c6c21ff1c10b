"""Was noise kept out of where it must not be: the arm without noise, and validation?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlx.evidence.metrics import validated_steps
from rlx.evidence.schedule import BUILTIN
from rlx.evidence.values import ROLLOUT, VALIDATION, Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, invalid, remark, unverified
from rlx.plan import NoiseSchedule, Severity


def noise_in_quiet_arm(evidence: Evidence) -> Iterator[Charge]:
    """For an arm that was planned without noise."""
    noisy = [event for event in evidence.noise if event.is_noisy]
    if not noisy:
        return
    steps = [event.step for event in noisy if event.step is not None]
    yield invalid(
        "RLX605",
        f"this arm was planned without noise, but {noisy[0].layers} layers got some"
        + (f" at {at_steps(steps)}" if steps else f" ({len(noisy)} lines)"),
        "does its recipe, or a payload left from another arm, switch AQN on?",
        min(steps, default=None),
    )


def noise_in_validation(evidence: Evidence, noise: NoiseSchedule) -> Iterator[Charge]:
    """Validation must see clean weights, unless the recipe declares otherwise (`eval.noise`).

    The payload records a clean sync before each validation. A fork records none and is known to leave the noise in:
    its trainer never passes `is_validation` to the rollout (zhshgmail/verl up to cfb21db5). A line "Skipping noise
    injection during validation" would not say which weights the validation used, so it proves nothing either.
    """
    if noise.in_validation:
        yield from _declared(evidence)
        return
    if noise.provider == BUILTIN:
        yield from _unproven(evidence)
        return
    if noisy := noisy_validations(evidence):
        yield invalid(
            "RLX606",
            f"the validation at {at_steps(noisy)} ran on noisy weights",
            "restore clean weights before validation, or declare it with eval.noise: true in all arms",
            noisy[0],
        )


def _declared(evidence: Evidence) -> Iterator[Charge]:
    """No fault, but whoever reads the values must know: they are those of noisy weights."""
    if noisy := noisy_validations(evidence):
        yield remark(
            "RLX717",
            Severity.WARNING,
            f"the validation at {at_steps(noisy)} ran on noisy weights, as declared (eval.noise): "
            "its values are not those of the clean checkpoint",
            step=noisy[0],
        )


def noisy_validations(evidence: Evidence) -> list[int]:
    """The validated steps for which some replica held noisy weights."""
    replicas = {event.replica for event in evidence.noise if event.phase == ROLLOUT}
    return [
        step
        for step in validated_steps(evidence, None)
        if any(_is_noisy(_of(evidence.noise, replica), step) for replica in replicas)
    ]


def _of(events: Sequence[NoiseEvent], replica: int) -> list[NoiseEvent]:
    return [event for event in events if event.replica == replica]


def _is_noisy(events: Sequence[NoiseEvent], step: int) -> bool:
    at_validation = [event for event in events if event.phase == VALIDATION and event.step == step]
    if at_validation:
        return any(event.is_noisy for event in at_validation)
    # No sync for the validation: it ran on what was synced last, the weights for the next rollout.
    rollouts = [event for event in events if event.phase == ROLLOUT]
    held = [event for event in rollouts if event.step == step + 1] or [
        event for event in rollouts if event.step == step
    ]
    return any(event.is_noisy for event in held)


def _unproven(evidence: Evidence) -> Iterator[Charge]:
    first = min((event.step for event in evidence.noise if event.is_noisy and event.step is not None), default=None)
    # The weights of a validation at step s are those of the rollout of step s + 1.
    doubtful = [step for step in validated_steps(evidence, None) if first is not None and step + 1 >= first]
    if doubtful:
        yield unverified(
            "RLX606",
            f"nothing shows that the validation at {at_steps(doubtful)} ran without noise; this fork leaves it in",
            "use aqn.provider: payload, or declare eval.noise: true in all arms",
            doubtful[0],
        )
