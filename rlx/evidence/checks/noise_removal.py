"""Check "removal": each validation used the declared weights, clean ones or noisy ones.

Shown by digest: the layers that take noise have in a validation what the last sync sent. Or by the probe: the engine
scores as on the clean weights of that sync.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from rlx.evidence.checks import noise_response
from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import BUILTIN, noise_expectation, planned_sigmas, sigma_at
from rlx.evidence.metrics import validated_steps
from rlx.evidence.run_evidence import ROLLOUT, VALIDATION, Evidence, NoiseEvent
from rlx.evidence.verdict import CheckFinding, at_steps, contradiction, invalid, remark, unverified
from rlx.model import Link, NoiseExpectation, NoiseSchedule, Severity


def check_weights_of_validations(given: CheckInput) -> Iterator[CheckFinding]:
    """Report validations on other weights than declared. Nothing for records without digests and probe."""
    if given.noise is None:
        return
    evidence, noise = given.evidence, given.noise.schedule
    if noise.in_validation:
        yield from _declared(evidence, noise)
    else:
        yield from _other_weights(evidence)
        yield from _shown_by_probe(evidence)
        yield from not_shown(evidence, noise_expectation(noise))


def _events(evidence: Evidence) -> list[NoiseEvent]:
    return [event for event in evidence.noise if event.phase == VALIDATION and event.digest_after]


def _other_weights(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report validations with other digests, except those that record noise themselves, which RLX606 reports."""
    steps = [
        event.step
        for event in _events(evidence)
        if event.step is not None and not event.is_noisy and event.digest_sent not in ("", event.digest_after)
    ]
    if steps:
        yield invalid(
            "RLX687",
            f"the validation at {at_steps(steps)} used other weights than the last sync sent: the digests of the "
            "layers that take noise differ",
            "restore clean weights before validation, or declare it with eval.noise: true in all arms",
            min(steps),
        )


def _shown_by_probe(evidence: Evidence) -> Iterator[CheckFinding]:
    found = noise_response.probe_results(evidence, VALIDATION)
    clean = [result for result in found if result.changed == 0 or (result.changed is None and result.pair.sigma == 0)]
    pairs = [result.pair for result in clean if result.sees_noise]
    if pairs:
        where = noise_response.places(pairs, evidence.probes)
        yield contradiction(
            "RLX688",
            f"the engine that generates scores differently at the validation of {where} than on clean weights, but the "
            "records say that the weights were clean",
            "check that the engine validates with the model whose noise was removed, and with an empty cache",
            min(pair.step for pair in pairs),
        )


def not_shown(evidence: Evidence, promise: NoiseExpectation) -> Iterator[CheckFinding]:
    """Report validations whose weights are not shown, where the plan expects them to be."""
    if not promise.expects(Link.LIFTED):
        return
    shown = {event.step for event in _events(evidence) if event.digest_sent}
    shown |= {result.pair.step for result in noise_response.probe_results(evidence, VALIDATION) if result.sees_none}
    unknown = [step for step in validated_steps(evidence, None) if step not in shown]
    if unknown:
        yield unverified(
            "RLX687",
            f"nothing shows which weights the validation at {at_steps(unknown)} used: neither a digest nor the probe",
            "check whether records of the run are lost: copy its whole events/, and search the log for rlx_aqn",
            unknown[0],
        )


def _declared(evidence: Evidence, noise: NoiseSchedule) -> Iterator[CheckFinding]:
    """Report clean validations where noise was declared, except in a stage free of noise."""
    sigmas = planned_sigmas(noise, evidence)
    steps = [
        event.step
        for event in _events(evidence)
        if event.step is not None and sigma_at(sigmas, event.step) > 0 and not event.is_noisy
    ]
    if steps:
        yield invalid(
            "RLX689",
            f"the validation at {at_steps(steps)} used clean weights, but noise was declared for it (eval.noise)",
            "add the noise of the step before a validation, too, or declare it in no arm",
            min(steps),
        )


def removal_sentence(evidence: Evidence, count: int) -> str:
    """Write `clean in 5 validations`, and how that was shown, if by more than the record's statement."""
    ways = [
        *(["digest"] if any(event.digest_sent for event in _events(evidence)) else []),
        *(["probe"] if any(result.sees_none for result in noise_response.probe_results(evidence, VALIDATION)) else []),
    ]
    words = f"clean in {count} validation{'' if count == 1 else 's'}"
    return f"{words}, by {' and '.join(ways)}" if ways else words


def check_noise_left_in(given: CheckInput) -> Iterator[CheckFinding]:
    """Report noise in validations, unless the recipe declares it (`eval.noise`).

    The payload records a clean sync before each validation. A fork records none and is known to leave the noise in: its
    trainer never passes `is_validation` to the rollout (zhshgmail/verl up to cfb21db5). A line "Skipping noise
    injection during validation" would not show which weights the validation used, so it proves nothing either.
    """
    if given.noise is None:
        return
    evidence, noise = given.evidence, given.noise.schedule
    if noise.in_validation:
        yield from _declared_noise(evidence)
        return
    if noise.provider == BUILTIN:
        yield from _unproven(evidence)
        return
    noisy = noisy_validations(evidence)
    uncertain = [step for step in noisy if _may_be_lost(evidence, step)]
    if certain := [step for step in noisy if step not in uncertain]:
        yield invalid(
            "RLX606",
            f"the validation at {at_steps(certain)} used noisy weights",
            "restore clean weights before validation, or declare it with eval.noise: true in all arms",
            certain[0],
        )
    if uncertain:
        yield unverified(
            "RLX606",
            f"nothing shows that the validation at {at_steps(uncertain)} was without noise: it has no record, and "
            "lines of the record are lost",
            "check whether the disk was full, or the file changed",
            uncertain[0],
        )


def _may_be_lost(evidence: Evidence, step: int) -> bool:
    """Tell whether noise in a validation follows only from its missing record, and lines are lost."""
    own = any(event.is_noisy and event.phase == VALIDATION for event in syncs_at(evidence.noise)(step))
    return not own and any(count.lost for count in evidence.records)


def _declared_noise(evidence: Evidence) -> Iterator[CheckFinding]:
    """Remark on declared noise: it is no fault, but the values are those of noisy weights."""
    if noisy := noisy_validations(evidence):
        held = syncs_at(evidence.noise)
        yield remark(
            "RLX717",
            Severity.WARNING,
            f"the validation at {at_steps(noisy)} used noisy weights, as declared (eval.noise): its values are not "
            f"those of the clean checkpoint; noise by step: {', '.join(_strength(held(step), step) for step in noisy)}",
            step=noisy[0],
        )


def _strength(events: Sequence[NoiseEvent], step: int) -> str:
    """Write `10: 0.0158`, the effective standard deviation where it was counted, else sigma."""
    noisy = [event for event in events if event.is_noisy]
    strengths = [event.sigma if event.effective_std is None else event.effective_std for event in noisy]
    return f"{step}: {max(strengths):.3g}"


def noisy_validations(evidence: Evidence) -> list[int]:
    """List the validated steps for which some replica had noisy weights."""
    held = syncs_at(evidence.noise)
    return [step for step in validated_steps(evidence, None) if any(event.is_noisy for event in held(step))]


def syncs_at(events: Sequence[NoiseEvent]) -> Callable[[int], list[NoiseEvent]]:
    """Return a function that lists the syncs whose weights the replicas had at the validation of a step."""
    replicas = {event.replica for event in events if event.phase == ROLLOUT}
    synced: dict[tuple[int, str, int | None], list[NoiseEvent]] = defaultdict(list)
    for event in events:
        synced[event.replica, event.phase, event.step].append(event)

    def held(replica: int, step: int) -> list[NoiseEvent]:
        # Without a sync for the validation it used what was synced last, the weights for the next rollout.
        places = (VALIDATION, step), (ROLLOUT, step + 1), (ROLLOUT, step)
        return next((own for phase, at in places if (own := synced.get((replica, phase, at), []))), [])

    return lambda step: [event for replica in replicas for event in held(replica, step)]


def _unproven(evidence: Evidence) -> Iterator[CheckFinding]:
    first = min((event.step for event in evidence.noise if event.is_noisy and event.step is not None), default=None)
    # The weights of a validation at step s are those of the rollout of step s + 1.
    doubtful = [step for step in validated_steps(evidence, None) if first is not None and step + 1 >= first]
    if doubtful:
        yield unverified(
            "RLX606",
            f"nothing shows that the validation at {at_steps(doubtful)} was without noise; this fork does not "
            "remove it",
            "use aqn.provider: payload, or declare eval.noise: true in all arms",
            doubtful[0],
        )
