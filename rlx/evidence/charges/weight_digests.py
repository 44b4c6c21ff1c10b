"""Hold the digests of the weights that take noise against each other and against what was counted.

Each process takes three in a sync: what it finds, what it has once everything is received, what it has after the noise.
They are of the weights themselves, so that a count which is only said, noise that does not stand until the next sync,
and a rank that was passed over show in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.run_evidence import Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, dissent


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge what contradicts itself. Nothing for records without digests."""
    if given.noise is None:
        return
    events = [event for event in given.evidence.noise if event.digest_after]
    yield from _miscounted(events)
    yield from _not_left_standing(events)
    yield from unlike(given.evidence, events)


def _miscounted(events: list[NoiseEvent]) -> Iterator[Charge]:
    wrong = [
        event
        for event in events
        if event.digest_clean
        and event.changed is not None
        and (event.digest_after != event.digest_clean) != (event.changed > 0)
    ]
    if wrong:
        says = "some changed, and they are as before" if wrong[0].changed else "none changed, and they are others"
        yield dissent(
            "RLX686",
            f"the record contradicts itself at {_steps(wrong)}: of the weights that take noise it counts that {says}",
            "was the record edited, or the payload?",
            wrong[0].step,
        )


def _not_left_standing(events: list[NoiseEvent]) -> Iterator[Charge]:
    """What a sync finds is what the one before it left. "" where an engine gives its weights away in between."""
    other = [event for event in events if event.digest_before and event.digest_left not in ("", event.digest_before)]
    if other:
        yield dissent(
            "RLX684",
            f"the weights that take noise did not stay as they were left: other ones were found at {_steps(other)}, "
            "before anything was received",
            "does something else write to the rollout's weights, or take the noise off?",
            other[0].step,
        )


def unlike(evidence: Evidence, events: Sequence[NoiseEvent]) -> Iterator[Charge]:
    """All that hold the same layers hold the same clean weights, whatever the replica, the shard and the rank."""
    layers = {(told.attempt, told.source): told.layers for told in evidence.noise_settings}
    groups = defaultdict[object, list[NoiseEvent]](list)
    counts = defaultdict[object, int](int)
    for event in events:
        own = layers.get((event.attempt, event.source), ())
        turn = (event.attempt, event.source, event.phase, event.step)
        if own and event.digest_clean:
            groups[event.attempt, own, *turn[2:], counts[turn]].append(event)
        counts[turn] += 1
    unlike = [group for group in groups.values() if len({event.digest_clean for event in group}) > 1]
    if unlike:
        first = unlike[0]
        yield dissent(
            "RLX685",
            f"processes that hold the same layers had other clean weights at {_steps(e for g in unlike for e in g)}: "
            f"{' and '.join(_names(first).values())}",
            "did the weight sync reach each of them?",
            first[0].step,
        )


def _names(events: list[NoiseEvent]) -> Mapping[str, str]:
    """The first process of each digest."""
    return {
        event.digest_clean: f"replica {event.replica}, shard {event.shard}, rank {event.rank}"
        for event in sorted(events, key=lambda event: event.process, reverse=True)
    }


def _steps(events: Iterator[NoiseEvent] | list[NoiseEvent]) -> str:
    return at_steps(event.step for event in events if event.step is not None)
