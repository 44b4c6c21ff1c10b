"""Was each validation on the weights that it was meant to be on: clean ones, or noisy ones where that is declared?

Shown by digest: of the layers that take noise a validation has what the last sync brought. Or by the probe: the engine
scores as on the clean weights of that sync.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges import felt
from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.promised_noise import planned_sigmas, promise_of, sigma_at
from rlx.evidence.metrics import validated_steps
from rlx.evidence.run_evidence import VALIDATION, Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, dissent, invalid, unverified
from rlx.model import Link, NoisePromise, NoiseSchedule


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge validations on other weights than declared. Nothing for records without digests and probe."""
    if given.noise is None:
        return
    evidence, noise = given.evidence, given.noise.schedule
    if noise.in_validation:
        yield from _declared(evidence, noise)
    else:
        yield from _other_weights(evidence)
        yield from _seen_by_the_probe(evidence)
        yield from not_shown(evidence, promise_of(noise))


def _events(evidence: Evidence) -> list[NoiseEvent]:
    return [event for event in evidence.noise if event.phase == VALIDATION and event.digest_after]


def _other_weights(evidence: Evidence) -> Iterator[Charge]:
    """A validation that says itself that it was noisy is charged with that."""
    steps = [
        event.step
        for event in _events(evidence)
        if event.step is not None and not event.is_noisy and event.digest_sent not in ("", event.digest_after)
    ]
    if steps:
        yield invalid(
            "RLX687",
            f"the validation at {at_steps(steps)} ran on other weights than the last sync brought: the digests of the "
            "layers that take noise differ",
            "restore clean weights before validation, or declare it with eval.noise: true in all arms",
            min(steps),
        )


def _seen_by_the_probe(evidence: Evidence) -> Iterator[Charge]:
    found = felt.looks(evidence, VALIDATION)
    clean = [look for look in found if look.changed == 0 or (look.changed is None and look.pair.sigma == 0)]
    pairs = [look.pair for look in clean if look.sees_noise]
    if pairs:
        where = felt.places(pairs, evidence.probes)
        yield dissent(
            "RLX688",
            f"the engine that serves scores at the validation of {where} otherwise than on clean weights, and the "
            "records say that it had those",
            "does the engine validate with the model whose noise was taken off, and with nothing left in a cache?",
            min(pair.step for pair in pairs),
        )


def not_shown(evidence: Evidence, promise: NoisePromise) -> Iterator[Charge]:
    """Charge validations of which nothing shows the weights, where the plan promises to show them."""
    if not promise.promises(Link.LIFTED):
        return
    shown = {event.step for event in _events(evidence) if event.digest_sent}
    shown |= {look.pair.step for look in felt.looks(evidence, VALIDATION) if look.sees_none}
    silent = [step for step in validated_steps(evidence, None) if step not in shown]
    if silent:
        yield unverified(
            "RLX687",
            f"nothing shows which weights the validation at {at_steps(silent)} ran on: neither a digest nor the probe",
            "are records of the run lost?",
            silent[0],
        )


def _declared(evidence: Evidence, noise: NoiseSchedule) -> Iterator[Charge]:
    """Declared noise is that of the validated step; of a stage free of noise there is none to show."""
    sigmas = planned_sigmas(noise, evidence)
    steps = [
        event.step
        for event in _events(evidence)
        if event.step is not None and sigma_at(sigmas, event.step) > 0 and not event.is_noisy
    ]
    if steps:
        yield invalid(
            "RLX689",
            f"the validation at {at_steps(steps)} ran on clean weights, and its noise was declared (eval.noise)",
            "add the noise of the step before validation too, or declare it in no arm",
            min(steps),
        )


def sentence(evidence: Evidence, count: int) -> str:
    """`clean in 5 validations`, and by what that was shown, if by more than the record's word."""
    ways = [
        *(["digest"] if any(event.digest_sent for event in _events(evidence)) else []),
        *(["probe"] if any(look.sees_none for look in felt.looks(evidence, VALIDATION)) else []),
    ]
    words = f"clean in {count} validation{'' if count == 1 else 's'}"
    return f"{words}, by {' and '.join(ways)}" if ways else words
