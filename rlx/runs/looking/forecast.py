"""Estimate when runs start and end, from the pace of those that make steps and the time that ended ones took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlx.model import RunState
from rlx.runs.looking.turns import Times, Wish, times

if TYPE_CHECKING:
    from rlx.runs.looking.overview import Overview
    from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class Estimate:
    """`seconds` from now, None where that is not known: then `at_least` so many, and `why` says what is missing.

    It holds if nothing else comes in between, and every run goes on at its pace.
    """

    seconds: float | None
    at_least: float = 0.0
    why: tuple[str, ...] = ()


class Paces:
    """The seconds that a run of an arm takes, by other runs of the same launch; those of its own host go before."""

    def __init__(self, rows: Iterable[Overview]) -> None:
        self._known: dict[tuple[str, ...], list[float]] = {}
        for row in rows:
            if (seconds := _whole_seconds(row)) is not None:
                for key in _keys(row.ref):
                    self._known.setdefault(key, []).append(seconds)

    def seconds(self, ref: RunRef) -> float:
        """Infinite where no run of the arm has made steps."""
        known = next((self._known[key] for key in _keys(ref) if key in self._known), None)
        return sum(known) / len(known) if known else math.inf


def _keys(ref: RunRef) -> tuple[tuple[str, ...], ...]:
    return (ref.launch_id, ref.arm, ref.host), (ref.launch_id, ref.arm)


def _whole_seconds(row: Overview) -> float | None:
    seen = row.observation
    if row.state is RunState.FINISHED and seen.started_epoch is not None and seen.ended_epoch is not None:
        return max(0.0, seen.ended_epoch - seen.started_epoch) if row.steps_done >= (row.steps_total or 0) else None
    if row.state is RunState.RUNNING and seen.seconds_since_start is not None and row.seconds_left is not None:
        return seen.seconds_since_start + row.seconds_left
    return None


def seconds_left(row: Overview, paces: Paces) -> float:
    """Estimate when a run that has its devices lets them go; infinite where that is not known."""
    if row.state is RunState.RUNNING and row.seconds_left is not None:
        return row.seconds_left
    if row.state in (RunState.STARTING, RunState.RUNNING):
        return max(0.0, paces.seconds(row.ref) - (row.observation.seconds_since_start or 0.0))
    return math.inf


def foretell(held: Mapping[int, float], free: Iterable[int], waiting: Sequence[Wish]) -> Mapping[str, Estimates]:
    """When each of these waiting runs starts and ends. What is infinite is not known, and may be over at once."""
    free = tuple(free)
    known = times(held, free, waiting)
    hurried = [replace(wish, seconds=_or_none(wish.seconds)) for wish in waiting]
    earliest = times({device: _or_none(seconds) for device, seconds in held.items()}, free, hurried)
    return {wish.run_id: _estimates(wish.run_id, known, earliest) for wish in waiting}


@dataclass(frozen=True, slots=True)
class Estimates:
    """When a run that waits starts, and when it ends."""

    start: Estimate
    end: Estimate


def _estimates(run_id: str, known: Times, earliest: Times) -> Estimates:
    (start, end), (first_start, first_end) = known[run_id], earliest[run_id]
    return Estimates(_estimate(start, first_start), _estimate(end, first_end))


def _estimate(seconds: float, at_least: float) -> Estimate:
    return Estimate(seconds if math.isfinite(seconds) else None, min(seconds, _or_none(at_least)))


def _or_none(seconds: float) -> float:
    """No time at all for one that nobody knows."""
    return seconds if math.isfinite(seconds) else 0.0
