"""Looks at the same runs again and again, through outages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rlx.errors import RlxError
from rlx.plan import Place, RunState
from rlx.runs.index.run_index import Index
from rlx.runs.looking.observe import Observation, observe, unasked
from rlx.runs.run import RunRef

_LONGEST_PAUSE_S = 15.0

Observing = Callable[[Index, Sequence[RunRef]], Mapping[str, Observation]]


class Revisit:
    """A place that does not answer is left alone for a while, longer each time: it must not hold up the others."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._seen: dict[str, Observation] = {}
        self._pauses: dict[Place, float] = {}
        self._due: dict[Place, float] = {}

    def due(self, refs: Sequence[RunRef]) -> list[RunRef]:
        """The runs whose places it is time to ask."""
        now = time.monotonic()
        return [ref for ref in refs if ref.run_id not in self._seen or self._due.get(ref.place, now) <= now]

    def look(self, refs: Sequence[RunRef], observing: Observing = observe) -> Mapping[str, Observation]:
        """Each run's observation by its id: a new one, or the last where it is not yet time to ask again."""
        due = self.due(refs)
        self._seen |= observing(self._index, due)
        silent = {ref.place for ref in due if self._seen[ref.run_id].state is RunState.UNREACHABLE}
        for place in {ref.place for ref in due}:
            self._set_pause(place, min(_LONGEST_PAUSE_S, 1.0 + 2 * self._pauses.get(place, 0.0)) * (place in silent))
        return {ref.run_id: self._seen[ref.run_id] for ref in refs}

    def leave_alone(self, refs: Sequence[RunRef], failure: RlxError) -> None:
        """The host of these runs has just been asked for something else, in vain."""
        self._seen |= unasked(self._index, refs, failure)
        for place in {ref.place for ref in refs}:
            self._set_pause(place, 1.0)

    def _set_pause(self, place: Place, seconds: float) -> None:
        self._pauses[place] = seconds
        self._due[place] = time.monotonic() + seconds
