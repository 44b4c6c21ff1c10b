"""Say which runs start next on which devices of a host: the rule by which the holders there go on."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

Times = Mapping[str, tuple[float, float]]
"""By run id, when it starts and when it ends, in seconds from now; infinite: not known."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A run that waits for `count` of the devices `could`; None: it does not say which, and could take any.

    `seconds` is how long it will take, infinite where nothing is known of that.
    """

    run_id: str
    count: int
    could: frozenset[int] | None = None
    seconds: float = math.inf

    def competes(self, other: Wish) -> bool:
        """Tell whether both could take the same device."""
        return self.could is None or other.could is None or bool(self.could & other.could)


def turns(free: Iterable[int], waiting: Sequence[Wish]) -> dict[str, tuple[int, ...]]:
    """The devices of each run that starts now; `waiting` is in the order of the tickets.

    A run goes past those ahead of it if it starts on devices none of which any of them could take: to them it is then
    as if it were not there, however long it runs. `rlx/payload/supervise/40-queue.sh` decides it on the host.
    """
    left, started = sorted(free), {}
    for position, wish in enumerate(waiting):
        ahead = [other for other in waiting[:position] if other.run_id not in started]
        able = [device for device in left if _could(wish, device) and not any(_could(other, device) for other in ahead)]
        if wish.could is not None and len(able) >= wish.count:
            started[wish.run_id] = tuple(able[: wish.count])
            left = [device for device in left if device not in started[wish.run_id]]
    return started


def _could(wish: Wish, device: int) -> bool:
    return wish.could is None or device in wish.could


def times(held: Mapping[int, float], free: Iterable[int], waiting: Sequence[Wish]) -> Times:
    """Foretell the runs that wait, if nothing comes in between. `held`: the seconds until each device is let go."""
    now_free, queue, found = set(free), list(waiting), {}
    order = count()
    releases: list[tuple[float, int, tuple[int, ...]]] = [
        (seconds, next(order), (device,)) for device, seconds in held.items() if seconds < math.inf
    ]
    heapq.heapify(releases)
    now = 0.0
    while True:
        for run_id, devices in turns(now_free, queue).items():
            wish = next(wish for wish in queue if wish.run_id == run_id)
            queue.remove(wish)
            now_free -= set(devices)
            found[run_id] = (now, now + wish.seconds)
            if wish.seconds < math.inf:
                heapq.heappush(releases, (now + wish.seconds, next(order), devices))
        if not releases:
            return found | {wish.run_id: (math.inf, math.inf) for wish in queue}
        now, _, devices = heapq.heappop(releases)
        now_free |= set(devices)
