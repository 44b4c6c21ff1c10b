"""Did the engine that serves feel the noise? The paired probe: the same tokens scored on clean and on noisy weights.

On clean weights it scores as before, bit by bit, unless the device itself does not repeat itself: two looks at the same
clean weights say by how much (the floor). So there is no threshold to choose where the floor is 0. Where it is not, one
pair of looks says little of how far others may lie apart, and what is less than _WIDE floors away accuses nobody.
How large a difference is counts for nothing: two noises of one sigma differ five-fold on a tiny model, and in bfloat16
a single changed element moves every score. Measured with vLLM 0.27.1 and with rlx's own rollout, on a CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import promise_of
from rlx.evidence.run_evidence import ROLLOUT, VALIDATION, Evidence, NoiseEvent, ProbePair
from rlx.evidence.verdict import Charge, at_steps, counted, dissent, remark, unverified
from rlx.model import NoiseSchedule, Severity

# Not measured: no device that does not repeat itself has been probed yet.
_WIDE = 10.0
# Of so few changed elements rounding in the layers above may leave nothing.
_FEW = 0.01
_OTHER_MODEL = "does the engine score with the model that got the noise, and with nothing left in a cache?"

_Place = tuple[int, int, str, int]
"""Attempt, replica, phase, step."""


@dataclass(frozen=True, slots=True)
class Look:
    """A pair of scores, and what the records say of the same weights: the largest share of elements that changed.

    `changed`: None where there is no record, or where processes of one replica differ in whether any element changed.
    """

    pair: ProbePair
    changed: float | None

    @property
    def sees_noise(self) -> bool:
        delta, floor = self.pair.delta, self.pair.floor
        return delta is not None and floor is not None and delta > _WIDE * floor

    @property
    def sees_none(self) -> bool:
        delta, floor = self.pair.delta, self.pair.floor
        return delta is not None and floor is not None and delta <= floor


def looks(evidence: Evidence, phase: str) -> list[Look]:
    """The looks at what served this phase, in the order in which they were taken."""
    events = defaultdict[_Place, list[NoiseEvent]](list)
    for event in evidence.noise:
        if event.step is not None and event.digest_after:
            events[event.attempt, event.replica, event.phase, event.step].append(event)
    return [Look(pair, _share(events[_place(pair)])) for pair in evidence.probes if pair.phase == phase]


def _place(pair: ProbePair) -> _Place:
    return pair.attempt, pair.process.replica, pair.phase, pair.step


def _share(events: Sequence[NoiseEvent]) -> float | None:
    counts = [event.changed for event in events if event.changed is not None]
    if not counts or len(counts) < len(events) or len({count > 0 for count in counts}) > 1:
        return None
    return max((count / (event.elements or 1) for count, event in zip(counts, events, strict=True)), default=None)


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge what the probe says of noise, and its silence where the plan promises one."""
    if given.noise is None:
        return
    evidence, (noise, found, _) = given.evidence, given.noise
    rollouts = looks(evidence, ROLLOUT)
    if promise_of(noise).probed:
        yield from _silent(rollouts, noise, found)
    yield from _unfelt([*rollouts, *looks(evidence, VALIDATION)], evidence.probes)
    yield from _felt_without_noise(rollouts, evidence.probes)
    yield from _other_after_validation(evidence.probes)
    yield from from_cache(evidence.probes)
    yield from missing(evidence.probes)


def _silent(rollouts: Sequence[Look], noise: NoiseSchedule, found: Application) -> Iterator[Charge]:
    """Single looks may fail; a probe that never looked at noisy weights of a replica shows nothing of that replica."""
    looked = {(look.pair.process.replica, look.pair.step) for look in rollouts if look.pair.delta is not None}
    had_effect = {(event.replica, step) for step in found.effective for event in found.at(step) if event.had_effect}
    noisy = {replica for replica, _ in had_effect}
    silent = sorted(noisy - {replica for replica, _ in looked & had_effect})
    if silent:
        planned = {process.replica for process in promise_of(noise).processes}
        where = _of_replicas(silent) if len(silent) < len(noisy | planned) else ""
        yield unverified(
            "RLX683",
            f"nothing shows that the engine that serves{where} felt the noise: the probe was promised, and looked at "
            "no noisy weights",
            "are records of the run lost, or did every look fail?",
            found.effective[0],
        )


def _of_replicas(replicas: Sequence[int]) -> str:
    return f" in replica{'s' if len(replicas) > 1 else ''} {', '.join(map(str, replicas))}"


def places(found: Sequence[ProbePair], probed: Sequence[ProbePair]) -> str:
    """`steps 3-6`, or `steps 3-6 in replica 1` where not all replicas that were probed are meant."""
    meant = sorted({pair.process.replica for pair in found})
    others = {pair.process.replica for pair in probed}.difference(meant)
    return at_steps(pair.step for pair in found) + (_of_replicas(meant) if others else "")


def is_shown(evidence: Evidence, found: Application) -> bool:
    """Tell whether the engine felt the noise at half of the steps that had any, or more."""
    steps = {look.pair.step for look in looks(evidence, ROLLOUT) if look.changed and look.sees_noise}
    return bool(steps) and 2 * len(steps.intersection(found.effective)) >= len(found.effective)


def _unfelt(found: Sequence[Look], probed: Sequence[ProbePair]) -> Iterator[Charge]:
    noisy = [look for look in found if look.changed and look.pair.delta is not None]
    unfelt = [look for look in noisy if look.sees_none]
    if len(unfelt) < len(noisy):
        unfelt = [look for look in unfelt if (look.changed or 0) >= _FEW]
    if unfelt:
        pairs = [look.pair for look in unfelt]
        yield dissent(
            "RLX680",
            f"the engine that serves scores at {places(pairs, probed)} as on clean weights, and the records say that "
            "noise changed them",
            _OTHER_MODEL,
            min(pair.step for pair in pairs),
        )


def _felt_without_noise(found: Sequence[Look], probed: Sequence[ProbePair]) -> Iterator[Charge]:
    pairs = [look.pair for look in found if look.changed == 0 and look.sees_noise]
    if pairs:
        yield dissent(
            "RLX681",
            f"the engine that serves scores at {places(pairs, probed)} otherwise than on clean weights, and the "
            "records say that no weight changed",
            _OTHER_MODEL,
            min(pair.step for pair in pairs),
        )


def _other_after_validation(pairs: Sequence[ProbePair]) -> Iterator[Charge]:
    """Back from a validation the engine serves what it served before, and so scores the same."""
    other = [pair for before, pair in _around_validations(pairs) if _differ(before, pair)]
    if other:
        yield dissent(
            "RLX682",
            f"back from the validation the engine scores at {places(other, pairs)} otherwise than before it, with the "
            "same noise on the same weights",
            "is the noise of the step put back after a validation, and nothing else?",
            min(pair.step for pair in other),
        )


def _around_validations(pairs: Sequence[ProbePair]) -> Iterator[tuple[ProbePair, ProbePair]]:
    """The look at a rollout before and after a validation without another rollout between."""
    for own in _by_process(pairs).values():
        before: ProbePair | None = None
        validated = False
        for pair in own:
            if pair.phase == VALIDATION:
                validated = True
                continue
            if before is not None and validated and before.step == pair.step:
                yield before, pair
            before, validated = pair, False


def _by_process(pairs: Sequence[ProbePair]) -> Mapping[object, list[ProbePair]]:
    groups = defaultdict[object, list[ProbePair]](list)
    for pair in pairs:
        groups[pair.attempt, pair.source, pair.process].append(pair)
    return groups


def _differ(one: ProbePair, other: ProbePair) -> bool:
    if one.delta is None or other.delta is None or one.floor is None or other.floor is None:
        return False
    return abs(one.delta - other.delta) > _WIDE * max(one.floor, other.floor)


def from_cache(pairs: Sequence[ProbePair]) -> Iterator[Charge]:
    """Charge what the engine's prefix cache kept from weights that it no longer serves."""
    kept = [pair for pair in pairs if pair.cached]
    if kept:
        yield dissent(
            "RLX690",
            f"the engine that serves still had up to {counted(max(pair.cached for pair in kept), 'token')} of a prompt "
            f"in its cache at {places(kept, pairs)}, computed with other weights",
            "is the prefix cache emptied after each change of the weights, with no request in flight?",
            min(pair.step for pair in kept),
        )


def missing(pairs: Sequence[ProbePair]) -> Iterator[Charge]:
    """Remark on single looks that failed."""
    failed = [pair for pair in pairs if pair.delta is None]
    if failed:
        steps = at_steps(pair.step for pair in failed)
        yield remark(
            "RLX683",
            Severity.NOTE,
            f"{counted(len(failed), 'look')} of the probe of {len(pairs)} missing ({steps}): "
            f"{failed[0].missing or 'not said why'}",
            "the other witnesses judge those steps",
            failed[0].step,
        )


def sentence(evidence: Evidence) -> Iterator[str]:
    """Say at how many noisy steps the engine felt it; nothing for a run without a probe."""
    noisy = [look for look in looks(evidence, ROLLOUT) if look.changed and look.pair.delta is not None]
    if noisy:
        felt = {look.pair.step for look in noisy if look.sees_noise}
        yield f"felt by the engine at {len(felt)} of {counted(len({look.pair.step for look in noisy}), 'probed step')}"
