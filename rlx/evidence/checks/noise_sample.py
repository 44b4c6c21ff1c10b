"""Check "sample": the noise differs by step and replica, has the planned size, and is equal where it must be.

The payload derives noise from (seed, replica, step, name of the weight) and nothing else, except for the number of the
draw where a step has several. So the fingerprint of a replica at a step is the same in its shards and ranks, in each
sync of that step and in a resumed run, and no other replica, step or draw has it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import BUILTIN, Application, noise_expectation
from rlx.evidence.reading.metrics_file import is_number
from rlx.evidence.run_evidence import LOG, Evidence, NoiseEvent
from rlx.evidence.verdict import CheckFinding, at_steps, counted, invalid, unverified
from rlx.model import Link, NoiseSchedule
from rlx.model.rounding import StdBand, least_changed, std_band

_CHECK_PAYLOAD = "check that it is the payload that the run was launched with: its record is not of one draw"
_SMALLEST, _LARGEST = 1e-30, 1e30
"""A sigma beyond that is none that a plan has (RLX603), and its square no number."""
Draw = tuple[int, int, int]  # replica, step, and which draw of that step
_CHECK = "check whether the rollout changes its noise between the answers of a group"


def check(given: CheckInput) -> Iterator[CheckFinding]:
    if given.noise is None:
        return
    evidence, (noise, found, _) = given.evidence, given.noise
    yield from _other_noise(evidence)
    yield from _same_noise(evidence, noise)
    yield from _other_size(evidence, noise, found)
    yield from _too_few_changed(evidence, noise, found)
    if noise_expectation(noise).expects(Link.DRAWN) and noise.provider != BUILTIN:
        yield from _uncounted(found)


def _draws(evidence: Evidence) -> dict[Draw, list[NoiseEvent]]:
    draws: dict[Draw, list[NoiseEvent]] = defaultdict(list)
    for event in evidence.noise:
        if event.is_noisy and event.fingerprint and event.step is not None:
            draws[event.replica, event.step, event.draw].append(event)
    return draws


def _other_noise(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report several noises at one replica and step."""
    wrong = {draw: events for draw, events in _draws(evidence).items() if len(_prints(events)) > 1}
    if wrong:
        (replica, step, _), events = next(iter(wrong.items()))
        by_process = len({event.process.place for event in events if event.attempt == events[0].attempt}) > 1
        who = "its processes" if by_process else "its syncs"
        yield invalid(
            "RLX676",
            f"replica {replica} must have one noise at {at_steps(at for _, at, _ in wrong)}, but {who} have "
            f"different ones ({', '.join(sorted(_prints(events))[:2])} at step {step})",
            _CHECK_PAYLOAD,
            step,
        )


def _prints(events: Sequence[NoiseEvent]) -> set[str]:
    return {event.fingerprint for event in events}


def _same_noise(evidence: Evidence, noise: NoiseSchedule) -> Iterator[CheckFinding]:
    """Report one noise at several steps or in several replicas, which are named if the run has more than one."""
    drawn: dict[str, dict[Draw, None]] = defaultdict(dict)
    for draw, events in _draws(evidence).items():
        for event in events:
            drawn[event.fingerprint][draw] = None
    repeated = {draw for draws in drawn.values() if len(draws) > 1 for draw in draws}
    if repeated:
        replicas = sorted({replica for replica, _, _ in repeated})
        steps = {step for _, step, _ in repeated}
        several = {event.replica for event in evidence.noise} | {
            each.replica for each in noise_expectation(noise).processes
        }
        which = f"in replica{'s' if len(replicas) > 1 else ''} {', '.join(map(str, replicas))} "
        where = f"{which if len(several) > 1 else ''}at"
        yield invalid(
            "RLX676",
            f"noise that must differ by step and replica was repeated: the same {where} {at_steps(steps)}",
            _CHECK_PAYLOAD,
            min(steps),
        )


def _other_size(evidence: Evidence, noise: NoiseSchedule, found: Application) -> Iterator[CheckFinding]:
    """Report noise outside the band that rounding and the number of weights allow. NaN is outside every band."""
    wrong: dict[int, str] = {}
    factors = _factors(evidence, noise)
    for step, event in found.recorded:
        if event.effective_std is None or not event.elements:
            continue
        band = _band(event, noise_expectation(noise).factor, factors)
        if band is not None and not band.holds(event.effective_std):
            wrong.setdefault(step, _words(event, step, band))
    if wrong:
        yield invalid(
            "RLX677", f"{next(iter(wrong.values()))}; at {at_steps(wrong)}", _CHECK_PAYLOAD, next(iter(wrong))
        )


def _too_few_changed(evidence: Evidence, noise: NoiseSchedule, found: Application) -> Iterator[CheckFinding]:
    """Report syncs that changed fewer weights than noise of that size changes after rounding."""
    if _factors(evidence, noise):
        return  # layers differ in sigma
    wrong: dict[int, str] = {}
    for step, event in found.recorded:
        if event.elements and event.changed and _SMALLEST < event.sigma < _LARGEST:
            least = least_changed(event.sigma, event.elements, event.dtypes)
            if event.changed < least:
                wrong.setdefault(step, _few_words(event, step, least))
    if wrong:
        yield invalid(
            "RLX677", f"{next(iter(wrong.values()))}; at {at_steps(wrong)}", _CHECK_PAYLOAD, next(iter(wrong))
        )


def _factors(evidence: Evidence, noise: NoiseSchedule) -> Mapping[str, float] | None:
    """Return the factors on sigma by pattern, as planned, else as the first process recorded them; None: unknown."""
    told: dict[str, Any] = dict(noise_expectation(noise).settings)
    if not told and evidence.noise_settings:
        told = evidence.noise_settings[0].settings
    factors = told.get("multipliers")
    if not isinstance(factors, dict) or not all(map(is_number, factors.values())):
        return None
    return factors


def _band(event: NoiseEvent, factor: float | None, factors: Mapping[str, float] | None) -> StdBand | None:
    """Return the band of a sync with its recorded sigma, which RLX603 compares with the plan.

    With factors, layers differ in sigma: few weights may then carry most of the noise.
    """
    elements, sigma = event.elements or 0, event.sigma
    asked = sigma if factors == {} else sigma * factor if factor is not None else event.asked_std or sigma
    if not (elements and _SMALLEST < asked < _LARGEST):
        return None
    if not factors:
        return std_band(asked, elements, event.changed, event.dtypes)
    most = sigma * math.prod(max(value, 1.0) for value in factors.values())
    return std_band(asked, max(1, int(elements * (asked / most) ** 2)), None, event.dtypes)


def _words(event: NoiseEvent, step: int, band: StdBand) -> str:
    return (
        f"noise of the wrong size: effective std {event.effective_std:.3g} at step {step}, where sigma "
        f"{event.sigma:.3g} "
        f"on {event.elements:,} {event.dtypes or 'rounded'} weights gives {band.low:.3g} to {band.high:.3g}"
    )


def _few_words(event: NoiseEvent, step: int, least: int) -> str:
    return (
        f"noise of sigma {event.sigma:.3g} changed {event.changed:,} of {event.elements:,} {event.dtypes} weights at "
        f"step {step}, where it changes at least {least:,}"
    )


def _uncounted(found: Application) -> Iterator[CheckFinding]:
    """Report records without fingerprint, effective std or counts."""
    bare = {
        step
        for step, event in found.recorded
        if not event.fingerprint or None in (event.effective_std, event.elements, event.changed)
    }
    if bare:
        yield unverified(
            "RLX671",
            f"nothing shows what noise was drawn at {at_steps(bare)} ({counted(len(bare), 'step')}): the record has no "
            "fingerprint, no effective std or no count of the weights",
            _CHECK_PAYLOAD,
            min(bare),
        )


def check_draws(given: CheckInput) -> Iterator[CheckFinding]:
    """Report steps at which draws are missing, or gave another number of answers than the others.

    Each group of answers is then generated with several draws.
    """
    if given.noise is None or given.noise.schedule.perturbations == 1:
        return
    noise, found, _ = given.noise
    planned = range(noise.perturbations)
    answers = {step: _answers(found, step) for step in found.noisy}
    few = {step: by_draw for step, by_draw in answers.items() if by_draw.keys() != set(planned)}
    if few:
        step, by_draw = next(iter(few.items()))
        yield invalid(
            "RLX699",
            f"each step should have {noise.perturbations} draws of noise: not so at {at_steps(few)} "
            f"({len(by_draw)} at step {step})",
            _CHECK,
            step,
        )
    yield from _unequal({step: by_draw for step, by_draw in answers.items() if step not in few})


def _unequal(answers: dict[int, Counter[int]]) -> Iterator[CheckFinding]:
    silent = [step for step, by_draw in answers.items() if not by_draw.total()]
    uneven = {step: by_draw for step, by_draw in answers.items() if len(set(by_draw.values())) > 1}
    if uneven:
        step, by_draw = next(iter(uneven.items()))
        counts = ", ".join(str(by_draw[draw]) for draw in sorted(by_draw))
        yield invalid(
            "RLX699",
            f"the draws of a step generated unequal numbers of answers: {at_steps(uneven)} ({counts} at step {step})",
            _CHECK,
            step,
        )
    if silent:
        yield unverified(
            "RLX699",
            f"nothing shows how many answers each draw generated at {at_steps(silent)}",
            "check whether lines of the record are lost",
            silent[0],
        )


def _answers(found: Application, step: int) -> Counter[int]:
    """Count the answers of each draw of this step."""
    counts: Counter[int] = Counter()
    for event in found.at(step):
        if event.is_noisy and event.source != LOG:
            counts[event.draw] += event.answers or 0
    return counts


def draws_sentence(noise: NoiseSchedule) -> Iterator[str]:
    """State how many draws each group had, if it had several."""
    if noise.perturbations > 1:
        yield f"each group under {noise.perturbations} draws"
