"""Remembers what was seen of runs that are looked at again and again, and which places to leave alone for now."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rlx.errors import RlxError
from rlx.model import Place
from rlx.runs.adopted.adopted_state import unasked_adopted
from rlx.runs.adopted.log_source import is_adopted
from rlx.runs.index.run_index import Index
from rlx.runs.looking.fan_out import Asked
from rlx.runs.looking.observation import Observation
from rlx.runs.looking.observe import observe
from rlx.runs.run import RunRef

_LONGEST_PAUSE_S = 15.0


class Revisit:
    """A place that does not answer is left alone for a while, longer each time: it must not hold up the others.

    `last` is the last observation of each run, by id.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.last: dict[str, Observation] = {}
        self._pauses: dict[Place, float] = {}
        self._due: dict[Place, float] = {}

    def due(self, refs: Sequence[RunRef]) -> list[RunRef]:
        """The runs whose places it is time to ask."""
        now = time.monotonic()
        return [ref for ref in refs if ref.run_id not in self.last or self._due.get(ref.place, now) <= now]

    def note(self, refs: Sequence[RunRef], seen: Mapping[str, Observation]) -> None:
        """Take over what has just been seen of these runs, and leave the places alone that did not answer."""
        self.last |= {ref.run_id: seen[ref.run_id] for ref in refs}
        silent = {ref.place for ref in refs if seen[ref.run_id].unreachable_since is not None}
        for place in {ref.place for ref in refs}:
            self._set_pause(place, min(_LONGEST_PAUSE_S, 1.0 + 2 * self._pauses.get(place, 0.0)) * (place in silent))

    def leave_alone(self, refs: Sequence[RunRef], failure: RlxError) -> None:
        """Note that the host of these runs has just been asked for something else, in vain."""
        adopted, own = [ref for ref in refs if is_adopted(ref)], [ref for ref in refs if not is_adopted(ref)]
        seen = observe(self._index, own, Asked((), {ref.place: failure for ref in own}))
        self._index.remember(list(seen.values()))
        self.last |= {**unasked_adopted(adopted, failure), **seen}
        for place in {ref.place for ref in refs}:
            self._set_pause(place, 1.0)

    def _set_pause(self, place: Place, seconds: float) -> None:
        self._pauses[place] = seconds
        self._due[place] = time.monotonic() + seconds
