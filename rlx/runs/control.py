"""Control a run on its host: stop it with all its processes, or attach to its terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rlx.errors import RlxError, UsageError
from rlx.hosts import tmux_socket, transport_for
from rlx.hosts.host_errors import HostError, reading_answer
from rlx.hosts.transports import terminal_command
from rlx.model import Cmd, Place, RunState
from rlx.runs import supervisor
from rlx.runs.importing.log_source import LogSource, is_adopted, source_of
from rlx.runs.run import RunRef
from rlx.runs.status.snapshots import Snapshot

_MARGIN_S = 90.0
_AT_ONCE = 8
_SUBMITTED, _ENDS = "submitted", ("ended", "left")


@dataclass(frozen=True, slots=True)
class Stopped:
    """The result of a stop: the pids that were ended, those that are left, and zombies.

    `zombies` remain until the container restarts: its first process does not reap orphans. `strays` have no mark of the
    run, because they cleared their environment, and still write to its files: they were not ended. `job` names the
    ended job, all of whose processes its scheduler has ended; empty for any other run. `ray_jobs` are the jobs that Ray
    ended for it, `ray_left` those that it could not, each with the address of its dashboard, and why.
    """

    run_id: str
    ended: tuple[int, ...]
    left: tuple[int, ...]
    zombies: tuple[int, ...] = ()
    strays: tuple[int, ...] = ()
    job: str = ""
    ray_jobs: tuple[str, ...] = ()
    ray_left: tuple[str, ...] = ()

    @property
    def is_left(self) -> bool:
        """Tell whether anything of the run may still run."""
        return bool(self.left or self.ray_left)


@dataclass(frozen=True, slots=True)
class StopResult:
    """The runs that were stopped, and why some were not, both by run id in the order given."""

    stopped: Mapping[str, Stopped]
    failures: Mapping[str, RlxError]


def stop_runs(
    refs: Sequence[RunRef], seen: Mapping[str, Snapshot], grace_s: float, *, abandon_jobs: bool = False
) -> StopResult:
    """Stop these runs, all places at once; a place that fails does not affect the others.

    `seen` are their last snapshots. At each place, waiting runs are stopped first: the end of one must not start the
    next.
    """
    places: dict[Place, list[RunRef]] = {}
    for ref in refs:
        places.setdefault(ref.place, []).append(ref)
    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        results = list(pool.map(lambda runs: _stop_place(runs, seen, grace_s, abandon_jobs), places.values()))
    found = {run_id: result for of_place in results for run_id, result in of_place.items()}
    stopped = {ref.run_id: result for ref in refs if isinstance(result := found[ref.run_id], Stopped)}
    failures = {ref.run_id: result for ref in refs if isinstance(result := found[ref.run_id], RlxError)}
    return StopResult(stopped, failures)


def _stop_place(
    refs: Sequence[RunRef], seen: Mapping[str, Snapshot], grace_s: float, abandon_jobs: bool
) -> dict[str, Stopped | RlxError]:
    """Stop the runs of one place. If it stops answering, the others are not tried: each would wait for it again."""
    gone: list[HostError] = []

    def attempt(ref: RunRef) -> Stopped | RlxError:
        if gone:
            return gone[0]
        try:
            return stop(ref, grace_s, abandon_jobs=abandon_jobs)
        except HostError as error:
            gone.append(error)
            return error
        except RlxError as error:
            return error

    states = {run_id: (snapshot.state, snapshot.observation.last_known) for run_id, snapshot in seen.items()}
    waiting = [ref for ref in refs if RunState.QUEUED in states[ref.run_id]]
    results = {ref.run_id: attempt(ref) for ref in waiting}
    others = [ref for ref in refs if ref.run_id not in results]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return results | dict(zip([ref.run_id for ref in others], pool.map(attempt, others), strict=True))


def stop(ref: RunRef, grace_s: float, *, abandon_jobs: bool = False) -> Stopped:
    """Send SIGTERM to all processes of the run, and SIGKILL after `grace_s` seconds. A waiting run never starts.

    Stopping a run that is over ends what it left behind, if anything. While a job of it in Ray may run, the run does,
    with its devices; with `abandon_jobs`, it has ended. Raises RlxError if the run is gone, or if rlx did
    not start it: then it does not know its processes.
    """
    if (source := source_of(ref.run_dir) if ref.place.is_local else None) is not None:
        raise _taken_in(ref.run_id, source)
    grace = math.ceil(grace_s)
    arguments = ("stop", ref.remote_dir, str(grace), ref.container or "none", *(["abandon"] if abandon_jobs else []))
    text = supervisor.call(ref.place, *arguments, timeout_s=grace + _MARGIN_S, accept_codes=(0, 1))
    with reading_answer(ref.host, "rlx stop"):
        lines = [words for line in text.splitlines() if (words := line.split())]
        values = {words[0]: words[1:] for words in lines if words[0] != _SUBMITTED}
        job = " ".join(values.pop("job", ()))
        pids = {word: tuple(map(int, numbers)) for word, numbers in values.items()}
        zombies, strays = pids.get("zombies", ()), pids.get("strays", ())
        jobs = {
            outcome: tuple(_job_words(words) for words in lines if words[:2] == [_SUBMITTED, outcome])
            for outcome in _ENDS
        }
        return Stopped(ref.run_id, pids["ended"], pids["left"], zombies, strays, job, jobs["ended"], jobs["left"])


def _job_words(words: Sequence[str]) -> str:
    _, _, name, address, *why = words
    return f"{name} at {address}" + (f" ({' '.join(why)})" if why else "")


def _taken_in(run_id: str, source: LogSource) -> UsageError:
    if not source.followed:
        return UsageError(
            "imported, not started by rlx: there are only logs, and nothing to stop",
            f"rlx status -v {run_id} says where they came from",
        )
    return UsageError(
        "tracked, not started by rlx: its processes are not known, so nothing was stopped",
        f"end it on {source.place.host} as it was started there; rlx status {run_id} then shows its end",
    )


def attach_command(ref: RunRef, *, read_only: bool) -> Cmd:
    """Return the command that shows the session in this terminal, through ssh for another machine.

    Raises RlxError without a session. A host without tmux has none; the log can still be followed.
    """
    if is_adopted(ref):
        raise RlxError(
            f"{ref.run_id} has no terminal session: rlx did not start it", f"follow its log: rlx logs -f {ref.run_id}"
        )
    # "=" requires exactly this name; tmux would also accept a session that begins with it.
    target = f"={ref.session}"
    probe = Cmd("sh", "-c", 'command -v tmux >/dev/null && exec tmux -L "$1" has-session -t "$2"', "rlx-attach")
    found = transport_for(ref.place).run(Cmd(*probe.arguments, tmux_socket(), target), timeout_s=20)
    if found.code != 0:
        reason = found.err.decode(errors="replace").strip() or "there is no tmux on the host"
        raise RlxError(f"{ref.run_id} has no terminal session ({reason})", f"follow its log: rlx logs -f {ref.run_id}")
    attach = Cmd("tmux", "-L", tmux_socket(), "attach-session", *(["-r"] if read_only else []), "-t", target)
    return terminal_command(ref.place, attach)
