"""Compare the digests of the weights that take noise with each other and with the recorded counts.

Each process takes three in a sync: before it, after everything is received, and after the noise. They are of the
weights themselves, so that they show a wrong count, noise that does not stay until the next sync, and a rank that was
skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.run_evidence import Evidence, NoiseEvent
from rlx.evidence.verdict import CheckFinding, at_steps, contradiction


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report digests that contradict the record. Nothing for records without digests."""
    if given.noise is None:
        return
    events = [event for event in given.evidence.noise if event.digest_after]
    yield from _miscounted(events)
    yield from _not_left_standing(events)
    yield from unlike(given.evidence, events)


def _miscounted(events: list[NoiseEvent]) -> Iterator[CheckFinding]:
    wrong = [
        event
        for event in events
        if event.digest_clean
        and event.changed is not None
        and (event.digest_after != event.digest_clean) != (event.changed > 0)
    ]
    if wrong:
        says = "some changed, but they are equal" if wrong[0].changed else "none changed, but they differ"
        yield contradiction(
            "RLX686",
            f"the record contradicts itself at {_steps(wrong)}: it counts that of the weights that get noise {says}",
            "was the record edited, or the payload?",
            wrong[0].step,
        )


def _not_left_standing(events: list[NoiseEvent]) -> Iterator[CheckFinding]:
    """Report weights that changed between syncs. "" where an engine releases its weights in between."""
    other = [event for event in events if event.digest_before and event.digest_left not in ("", event.digest_before)]
    if other:
        yield contradiction(
            "RLX684",
            f"the weights that get noise changed between two syncs: different ones were found at {_steps(other)}, "
            "before anything was received",
            "does something else write to the rollout's weights, or remove the noise?",
            other[0].step,
        )


def unlike(evidence: Evidence, events: Sequence[NoiseEvent]) -> Iterator[CheckFinding]:
    """Report processes that hold the same layers and had different clean weights."""
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
        yield contradiction(
            "RLX685",
            "processes that hold the same layers had different clean weights at "
            f"{_steps(e for g in unlike for e in g)}: {' and '.join(_names(first).values())}",
            "did the weight sync reach each of them?",
            first[0].step,
        )


def _names(events: list[NoiseEvent]) -> Mapping[str, str]:
    """Return the first process of each digest."""
    return {
        event.digest_clean: f"replica {event.replica}, shard {event.shard}, rank {event.rank}"
        for event in sorted(events, key=lambda event: event.process, reverse=True)
    }


def _steps(events: Iterator[NoiseEvent] | list[NoiseEvent]) -> str:
    return at_steps(event.step for event in events if event.step is not None)
