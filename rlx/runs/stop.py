"""Ends a run, with everything that belongs to it and nothing else, and looks whether it is gone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rlx.plan import RunState
from rlx.runs import supervisor
from rlx.runs.observe import observe
from rlx.runs.run import RunRef

_MARGIN_S = 60.0
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Stopped:
    """The pids that were told to end, those that are still there after all, and what is left as zombies.

    `zombies` remain until the container restarts: its first process does not reap what is orphaned.
    """

    run_id: str
    ended: tuple[int, ...]
    left: tuple[int, ...]
    zombies: tuple[int, ...] = ()


def stop_runs(refs: Sequence[RunRef], grace_s: float) -> tuple[Stopped, ...]:
    """Stop these runs, in the order given. Those that wait go first: the end of one must not start the next."""
    seen = observe(refs)
    waiting = [ref for ref in refs if seen[ref.run_id].state is RunState.QUEUED]
    results = {ref.run_id: stop(ref, grace_s) for ref in waiting}
    others = [ref for ref in refs if ref.run_id not in results]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        results |= {result.run_id: result for result in pool.map(lambda ref: stop(ref, grace_s), others)}
    return tuple(results[ref.run_id] for ref in refs)


def stop(ref: RunRef, grace_s: float) -> Stopped:
    """SIGTERM to all processes of the run, SIGKILL after `grace_s` seconds. A run that waits never starts.

    Stopping a run that is over ends what it left behind, if anything. Raises RlxError if the run is gone.
    """
    grace = math.ceil(grace_s)
    text = supervisor.call(
        ref.place, "stop", ref.remote_dir, str(grace), timeout_s=grace + _MARGIN_S, accept_codes=(0, 1)
    )
    pids = {words[0]: tuple(map(int, words[1:])) for line in text.splitlines() if (words := line.split())}
    return Stopped(ref.run_id, pids.get("ended", ()), pids.get("left", ()), pids.get("zombies", ()))
