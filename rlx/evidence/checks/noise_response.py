"""Check "response": the engine that generates scores the same tokens differently on clean and on noisy weights.

On clean weights it scores the same bits, unless the device itself is not deterministic: two scorings on the same clean
weights measure this (the floor). So no threshold is needed where the floor is 0. Otherwise one pair of scorings does
not show how far others may differ, and less than _WIDE floors is not reported. The size of a difference does not count:
two noises of one sigma differ five-fold on a tiny model, and in bfloat16 a single changed element changes every score.
Measured with vLLM 0.27.1 and with rlx's own rollout, on a CPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import Application, noise_expectation
from rlx.evidence.run_evidence import ROLLOUT, VALIDATION, Evidence, NoiseEvent, ProbePair
from rlx.evidence.verdict import CheckFinding, at_steps, contradiction, counted, remark, unverified
from rlx.model import NoiseSchedule, Severity

# Not measured: no device that is not deterministic has been probed yet.
_WIDE = 10.0
# Rounding in later layers may hide so few changed elements.
_FEW = 0.01
_OTHER_MODEL = "check that the engine scores with the model that got the noise, and with an empty cache"

_Place = tuple[int, int, str, int]
"""Attempt, replica, phase, step."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A pair of scores, and the largest share of elements that changed in the records of the same weights.

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


def probe_results(evidence: Evidence, phase: str) -> list[ProbeResult]:
    """Return the results of the probe in this phase, in the order in which they were recorded."""
    events = defaultdict[_Place, list[NoiseEvent]](list)
    for event in evidence.noise:
        if event.step is not None and event.digest_after:
            events[event.attempt, event.replica, event.phase, event.step].append(event)
    return [
        ProbeResult(pair, _share(events[(pair.attempt, pair.process.replica, pair.phase, pair.step)]))
        for pair in evidence.probes
        if pair.phase == phase
    ]


def _share(events: Sequence[NoiseEvent]) -> float | None:
    counts = [event.changed for event in events if event.changed is not None]
    if not counts or len(counts) < len(events) or len({count > 0 for count in counts}) > 1:
        return None
    return max((count / (event.elements or 1) for count, event in zip(counts, events, strict=True)), default=None)


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report what the probe shows of noise, and a missing probe where the plan expects one."""
    if given.noise is None:
        return
    evidence, (noise, found, _) = given.evidence, given.noise
    rollouts = probe_results(evidence, ROLLOUT)
    if noise_expectation(noise).probed:
        yield from _never_probed(rollouts, noise, found)
    yield from _no_response([*rollouts, *probe_results(evidence, VALIDATION)], evidence.probes)
    yield from _response_without_noise(rollouts, evidence.probes)
    yield from _other_after_validation(evidence.probes)
    yield from from_cache(evidence.probes)
    yield from missing(evidence.probes)


def _never_probed(rollouts: Sequence[ProbeResult], noise: NoiseSchedule, found: Application) -> Iterator[CheckFinding]:
    """Report replicas whose noisy weights were never probed. Single probes may fail."""
    probed_at = {
        (result.pair.process.replica, result.pair.step) for result in rollouts if result.pair.delta is not None
    }
    had_effect = {(event.replica, step) for step in found.effective for event in found.at(step) if event.had_effect}
    noisy = {replica for replica, _ in had_effect}
    silent = sorted(noisy - {replica for replica, _ in probed_at & had_effect})
    if silent:
        planned = {process.replica for process in noise_expectation(noise).processes}
        where = _of_replicas(silent) if len(silent) < len(noisy | planned) else ""
        yield unverified(
            "RLX683",
            f"nothing shows that the engine that generates{where} responded to the noise: the plan has a probe, and "
            "it has no result with noisy weights",
            "check whether records of the run are lost, or every probe failed",
            found.effective[0],
        )


def _of_replicas(replicas: Sequence[int]) -> str:
    return f" in replica{'s' if len(replicas) > 1 else ''} {', '.join(map(str, replicas))}"


def places(found: Sequence[ProbePair], probed: Sequence[ProbePair]) -> str:
    """Write `steps 3-6`, or `steps 3-6 in replica 1` if it is not all replicas that were probed."""
    meant = sorted({pair.process.replica for pair in found})
    others = {pair.process.replica for pair in probed}.difference(meant)
    return at_steps(pair.step for pair in found) + (_of_replicas(meant) if others else "")


def is_shown(evidence: Evidence, found: Application) -> bool:
    """Tell whether the engine responded to the noise at half of the steps that had any, or more."""
    steps = {result.pair.step for result in probe_results(evidence, ROLLOUT) if result.changed and result.sees_noise}
    return bool(steps) and 2 * len(steps.intersection(found.effective)) >= len(found.effective)


def _no_response(found: Sequence[ProbeResult], probed: Sequence[ProbePair]) -> Iterator[CheckFinding]:
    noisy = [result for result in found if result.changed and result.pair.delta is not None]
    unresponsive = [result for result in noisy if result.sees_none]
    if len(unresponsive) < len(noisy):
        unresponsive = [result for result in unresponsive if (result.changed or 0) >= _FEW]
    if unresponsive:
        pairs = [result.pair for result in unresponsive]
        yield contradiction(
            "RLX680",
            f"the engine that generates scores at {places(pairs, probed)} as on clean weights, but the records say "
            "that noise changed them",
            _OTHER_MODEL,
            min(pair.step for pair in pairs),
        )


def _response_without_noise(found: Sequence[ProbeResult], probed: Sequence[ProbePair]) -> Iterator[CheckFinding]:
    pairs = [result.pair for result in found if result.changed == 0 and result.sees_noise]
    if pairs:
        yield contradiction(
            "RLX681",
            f"the engine that generates scores differently at {places(pairs, probed)} than on clean weights, but the "
            "records say that no weight changed",
            _OTHER_MODEL,
            min(pair.step for pair in pairs),
        )


def _other_after_validation(pairs: Sequence[ProbePair]) -> Iterator[CheckFinding]:
    """Report other scores after a validation than before it: the engine must serve the same weights again."""
    other = [pair for before, pair in _around_validations(pairs) if _differ(before, pair)]
    if other:
        yield contradiction(
            "RLX682",
            f"after the validation the engine scores differently at {places(other, pairs)} than before it, with the "
            "same noise on the same weights",
            "check that after a validation the noise of the step, and nothing else, is restored",
            min(pair.step for pair in other),
        )


def _around_validations(pairs: Sequence[ProbePair]) -> Iterator[tuple[ProbePair, ProbePair]]:
    """Yield the probes of a rollout before and after a validation without another rollout between."""
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


def from_cache(pairs: Sequence[ProbePair]) -> Iterator[CheckFinding]:
    """Report what the engine's prefix cache kept from weights that it no longer serves."""
    kept = [pair for pair in pairs if pair.cached]
    if kept:
        yield contradiction(
            "RLX690",
            f"the engine that generates still had up to {counted(max(pair.cached for pair in kept), 'token')} of a "
            f"prompt in its cache at {places(kept, pairs)}, computed with other weights",
            "check that the prefix cache is emptied after each change of the weights, while no request is active",
            min(pair.step for pair in kept),
        )


def missing(pairs: Sequence[ProbePair]) -> Iterator[CheckFinding]:
    """Remark on single probes that failed."""
    failed = [pair for pair in pairs if pair.delta is None]
    if failed:
        steps = at_steps(pair.step for pair in failed)
        yield remark(
            "RLX683",
            Severity.NOTE,
            f"{counted(len(failed), 'result')} of the probe of {len(pairs)} missing ({steps}): "
            f"{failed[0].missing or 'no reason given'}",
            "the other checks judge those steps",
            failed[0].step,
        )


def sentence(evidence: Evidence) -> Iterator[str]:
    """State at how many noisy steps the engine responded; nothing for a run without a probe."""
    noisy = [result for result in probe_results(evidence, ROLLOUT) if result.changed and result.pair.delta is not None]
    if noisy:
        responded = {result.pair.step for result in noisy if result.sees_noise}
        probed = counted(len({result.pair.step for result in noisy}), "probed step")
        yield f"the engine responded at {len(responded)} of {probed}"
