"""Judge what the watch of an arm without noise saw: the looks that a noisy arm takes, where nothing may be seen.

The same processes digest the weights that take noise in another arm, at each sync, and the same probe asks the engine
that serves. Any change is noise, or something that is as bad in a control, so it is invalid and not merely odd. Only a
probe on a device that does not repeat itself is no proof: how far two looks may lie apart there is known by one pair.
A watch that was promised and is silent leaves open what it would have seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.evidence.charges import asked, felt, lifted, reached, weight_digests
from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.promised_noise import training_steps
from rlx.evidence.run_evidence import LOG, ROLLOUT, VALIDATION, Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, counted, dissent, invalid, unverified
from rlx.model import NoiseProcess, NoisePromise

_WHAT_WRITES = "what writes to the rollout's weights: a fork with noise of its own, or a payload of another arm?"


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge noise that was seen, and looks that were promised and not taken. Noise that records name is not told."""
    evidence, promise = given.evidence, given.expectations.watch
    if given.noise is not None or promise is None:
        return
    events = digested(evidence)
    yield from asked.other_settings(evidence, promise)
    yield from _changed(events)
    yield from _felt(evidence)
    yield from weight_digests.unlike(evidence, events)
    yield from _unwatched(evidence, promise)
    yield from _never_asked(evidence, promise)
    yield from lifted.not_shown(evidence, promise)
    yield from asked.untold(evidence, events, "weights were watched")
    yield from _other_layers(evidence, promise)
    yield from felt.from_cache(evidence.probes)
    yield from felt.missing(evidence.probes)
    yield from reached.lines(evidence)


def digested(evidence: Evidence) -> list[NoiseEvent]:
    """The records with a digest of the weights."""
    return [event for event in evidence.noise if event.source != LOG and event.digest_after]


def saw_noise(evidence: Evidence) -> bool:
    """Tell whether any look saw some."""
    return any(_is_changed(event) for event in digested(evidence)) or bool(_loud(evidence))


def _is_changed(event: NoiseEvent) -> bool:
    """Tell whether the weights are others than the sync brought, or were found other than they had been left."""
    brought = (event.digest_clean, event.digest_sent)
    others = any(digest not in ("", event.digest_after) for digest in brought)
    moved = event.digest_before and event.digest_left not in ("", event.digest_before)
    return bool(others or moved or event.changed)


def _changed(events: list[NoiseEvent]) -> Iterator[Charge]:
    changed = [event for event in events if _is_changed(event) and not event.is_noisy]
    if changed:
        steps = [event.step for event in changed if event.step is not None]
        yield invalid(
            "RLX605",
            f"this arm was planned without noise, and weights that generate changed at {at_steps(steps)} after they "
            f"had been received ({changed[0].process})",
            _WHAT_WRITES,
            min(steps),
        )


def _loud(evidence: Evidence) -> list[felt.Look]:
    return [look for phase in (ROLLOUT, VALIDATION) for look in felt.looks(evidence, phase) if look.sees_noise]


def _felt(evidence: Evidence) -> Iterator[Charge]:
    loud = _loud(evidence)
    # A floor of 0: the device repeats itself bit by bit.
    sure = [look.pair.step for look in loud if look.pair.floor == 0]
    says = "the engine that serves scores otherwise than on the clean weights of the same sync"
    if sure:
        message = f"this arm was planned without noise, and {says}, at {at_steps(sure)}"
        yield invalid("RLX605", message, _WHAT_WRITES, min(sure))
    elif loud:
        steps = [look.pair.step for look in loud]
        message = f"this arm was planned without noise, and {says}, at {at_steps(steps)}; this device does not repeat "
        yield dissent("RLX681", f"{message}itself, but not by as much", _WHAT_WRITES, min(steps))


def _unwatched(evidence: Evidence, promise: NoisePromise) -> Iterator[Charge]:
    """Charge steps before the first digest of a process, and after its last.

    Between them nothing is missed: lost lines are told by their numbers, and a trainer that warms up its critic syncs
    nothing meanwhile. Where the plan knows no processes, those that spoke are all.
    """
    seen = _steps_by_place(evidence)
    processes = promise.processes or tuple(NoiseProcess(*place) for place in sorted(seen)) or (NoiseProcess(),)
    steps = training_steps(evidence)
    bare = {process: _outside(steps, seen.get(process.place, set())) for process in processes}
    if silent := [process for process in processes if bare[process]]:
        unseen = [step for process in silent for step in bare[process]]
        yield unverified(
            "RLX672",
            f"{len(silent)} of {len(processes)} processes that are watched for noise left no digest of their weights "
            f"at {at_steps(unseen)}: {reached.some(list(map(str, silent)), '; ')}",
            "is the payload loaded in that process, and did its events/ come along?",
            min(unseen),
        )


def _outside(steps: list[int], seen: set[int]) -> list[int]:
    return [step for step in steps if not seen or not min(seen) <= step <= max(seen)]


def _steps_by_place(evidence: Evidence) -> dict[tuple[int, int, int], set[int]]:
    steps: dict[tuple[int, int, int], set[int]] = {}
    for event in digested(evidence):
        if event.phase == ROLLOUT and event.step is not None:
            steps.setdefault(event.process.place, set()).add(event.step)
    return steps


def _never_asked(evidence: Evidence, promise: NoisePromise) -> Iterator[Charge]:
    """Single looks may fail; a probe that never looked shows nothing."""
    steps = training_steps(evidence)
    if promise.probed and steps and not _asked_at(evidence):
        yield unverified(
            "RLX683",
            "nothing shows that the engine that serves felt no noise: the probe was promised, and never looked",
            "are records of the run lost, or did every look fail?",
            steps[0],
        )


def _asked_at(evidence: Evidence) -> set[int]:
    return {look.pair.step for look in felt.looks(evidence, ROLLOUT) if look.pair.delta is not None}


def _other_layers(evidence: Evidence, promise: NoisePromise) -> Iterator[Charge]:
    """Charge a watch that passed over layers of the model. Shapes from memory accuse nobody."""
    named = [told for told in evidence.noise_settings if told.layers]
    missed = next((names for told in named if (names := reached.missed(promise.layers, told.layers))), [])
    if missed and promise.confirmed:
        yield unverified(
            "RLX674",
            f"{len(missed)} of {counted(len(promise.layers), 'layer')} that are to be watched for noise were not: "
            f"{reached.some(missed, ', ')}",
            "which modules does the rollout's model have? rlx plan RECIPE says how many are to be watched",
        )


def sentence(evidence: Evidence) -> str:
    """`by digest at 20 and by the probe at 20 of 20 steps`: how the run shows that it had no noise."""
    steps = set(training_steps(evidence))
    digests = {step for steps_of in _steps_by_place(evidence).values() for step in steps_of}
    ways = {"digest": digests & steps, "the probe": _asked_at(evidence) & steps}
    shown = [f"by {way} at {len(seen)}" for way, seen in ways.items() if seen]
    return f"{' and '.join(shown)} of {counted(len(steps), 'step')}" if shown else ""
