"""Check that noise was kept out of validation, or declared there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.promised_noise import BUILTIN
from rlx.evidence.metrics import validated_steps
from rlx.evidence.run_evidence import ROLLOUT, VALIDATION, Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, invalid, remark, unverified
from rlx.model import Severity


def check(given: CheckInput) -> Iterator[Charge]:
    """Validation must see clean weights, unless the recipe declares otherwise (`eval.noise`).

    The payload records a clean sync before each validation. A fork records none and is known to leave the noise in:
    its trainer never passes `is_validation` to the rollout (zhshgmail/verl up to cfb21db5). A line "Skipping noise
    injection during validation" would not say which weights the validation used, so it proves nothing either.
    """
    if given.noise is None:
        return
    evidence, noise = given.evidence, given.noise.schedule
    if noise.in_validation:
        yield from _declared(evidence)
        return
    if noise.provider == BUILTIN:
        yield from _unproven(evidence)
        return
    noisy = noisy_validations(evidence)
    unsaid = [step for step in noisy if _may_be_lost(evidence, step)]
    if said := [step for step in noisy if step not in unsaid]:
        yield invalid(
            "RLX606",
            f"the validation at {at_steps(said)} ran on noisy weights",
            "restore clean weights before validation, or declare it with eval.noise: true in all arms",
            said[0],
        )
    if unsaid:
        yield unverified(
            "RLX606",
            f"nothing shows that the validation at {at_steps(unsaid)} ran without noise: it has no record, and lines "
            "of the record are lost",
            "was the disk full, or the file changed?",
            unsaid[0],
        )


def _may_be_lost(evidence: Evidence, step: int) -> bool:
    """Tell whether noise in a validation follows only from a record that it does not have, and lines are lost."""
    own = any(event.is_noisy and event.phase == VALIDATION for event in held_at(evidence.noise)(step))
    return not own and any(count.lost for count in evidence.records)


def _declared(evidence: Evidence) -> Iterator[Charge]:
    """Remark on declared noise: no fault, but the values are those of noisy weights."""
    if noisy := noisy_validations(evidence):
        held = held_at(evidence.noise)
        yield remark(
            "RLX717",
            Severity.WARNING,
            f"the validation at {at_steps(noisy)} ran on noisy weights, as declared (eval.noise): its values are not "
            f"those of the clean checkpoint; noise by step: {', '.join(_strength(held(step), step) for step in noisy)}",
            step=noisy[0],
        )


def _strength(events: Sequence[NoiseEvent], step: int) -> str:
    """`10: 0.0158`, the effective standard deviation where it was counted, else sigma."""
    noisy = [event for event in events if event.is_noisy]
    strengths = [event.sigma if event.effective_std is None else event.effective_std for event in noisy]
    return f"{step}: {max(strengths):.3g}"


def noisy_validations(evidence: Evidence) -> list[int]:
    """The validated steps for which some replica held noisy weights."""
    held = held_at(evidence.noise)
    return [step for step in validated_steps(evidence, None) if any(event.is_noisy for event in held(step))]


def held_at(events: Sequence[NoiseEvent]) -> Callable[[int], list[NoiseEvent]]:
    """Tells the syncs whose weights the replicas held at the validation of a step."""
    replicas = {event.replica for event in events if event.phase == ROLLOUT}
    synced: dict[tuple[int, str, int | None], list[NoiseEvent]] = defaultdict(list)
    for event in events:
        synced[event.replica, event.phase, event.step].append(event)

    def held(replica: int, step: int) -> list[NoiseEvent]:
        # Without a sync for the validation it ran on what was synced last, the weights for the next rollout.
        places = (VALIDATION, step), (ROLLOUT, step + 1), (ROLLOUT, step)
        return next((own for phase, at in places if (own := synced.get((replica, phase, at), []))), [])

    return lambda step: [event for replica in replicas for event in held(replica, step)]


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
