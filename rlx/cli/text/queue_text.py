"""The devices of hosts, who has them and who waits for them: as tables, lines and JSON."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlx.cli.text.table_text import fitted, paragraph
from rlx.runs.duration import clock_time, duration, time_zone
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.runs.status.forecast import TimeEstimate
    from rlx.runs.status.host_queue import Holder, HostQueue, Leases, Ticket, Waiter
    from rlx.schedulers.protocol import QueuedJob

_STAMP = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}(?=$|-node)")
_RANKS = {"WHERE": 3, "OWNER": 2, "FOR": 1}
_FLOWING = {"ENDS", "STARTS", "BEHIND", "WHY"}
_CLOCK = re.compile(r"\d\d:\d\d$|\d\d:\d\d ")
# A partition may have thousands.
_MOST_OTHERS = 20
_HAVING = ("JOB", "HAS", "RUN", "OWNER", "FOR", "ENDS", "WHERE")
_WAITING = ("JOB", "WAITS FOR", "RUN", "OWNER", "FOR", "STARTS", "WHY")


def queue_tables(queues: Sequence[HostQueue], width: int) -> Group:
    """Return two tables per host, who has its devices and who waits, at most `width` cells wide.

    Runs are numbered, so that a column can name those that one waits for. A host that does not answer has a line.
    """
    from rich.console import Group

    now = time.time()
    return Group(*(part for queue in queues for part in _parts(queue, width, now)))


def _parts(queue: HostQueue, width: int, now: float) -> list[Any]:
    from rich.text import Text

    inside = f", in container {queue.inside[:12]}" if queue.inside else ""
    title = Text(f"{queue.host}{inside}", "bold")
    if queue.problem is not None:
        return [paragraph(queue.problem, width)]
    if queue.jobs is not None:
        free = ", ".join(f"{each.total - each.used:g} of {each.total:g} {each.name}" for each in queue.resources)
        return [title, *([Text(f"free: {free}")] if free else []), *job_parts(queue.jobs, width, now)]
    names = short_names([*(each.run_id for each in queue.held), *(each.run_id for each in queue.waiting)])
    numbers = {run_id: str(number) for number, run_id in enumerate(names, 1)}
    holders, waiters = _holders(queue, names, numbers, now), _waiters(queue, names, numbers, now)
    tables: list[Any] = [fitted(table, width) for table in (holders, waiters) if table.rows]
    return [title, *(tables or [Text("no device was ever leased here")])]


def _holders(queue: HostQueue, names: Mapping[str, str], numbers: Mapping[str, str], now: float) -> Table:
    """Return who has devices: runs, processes outside rlx, and which devices are free."""
    held = [
        (
            numbers[each.run_id],
            f"{each.kind} {ranges(each.devices)}",
            names[each.run_id],
            each.user,
            _since(each, queue.now),
            _end(each, now),
        )
        for each in queue.held
    ]
    others = [("", devices, who, "", "", "") for devices, who in (*_foreign(queue), *_free(queue))]
    return _table(("#", "DEVICES", "RUN", "OWNER", "FOR", "ENDS"), [*held, *others])


def _waiters(queue: HostQueue, names: Mapping[str, str], numbers: Mapping[str, str], now: float) -> Table:
    rows = [
        (
            numbers[each.run_id],
            wish_words(each),
            names[each.run_id],
            each.user,
            _since(each, queue.now),
            start_words(each.start, now),
            ", ".join(numbers[run_id] for run_id in each.behind) or "–",
        )
        for each in queue.waiting
    ]
    return _table(("#", "WAITS FOR", "RUN", "OWNER", "FOR", "STARTS", "BEHIND"), rows)


def _since(each: Holder | Waiter, now: float) -> str:
    """Return for how long; `now` is by the clock of the host, as `since` is."""
    return duration(max(0.0, now - each.since))


def _end(holder: Holder, now: float) -> str:
    known = f"about {clock_time(now + holder.seconds_left)}" if holder.seconds_left is not None else "unknown"
    return f"{known} (its holder is gone)" if holder.outlives_holder else known


def start_words(start: TimeEstimate, now: float) -> str:
    """Return when a run is expected to start, as far as that is known."""
    if start.seconds is not None:
        return f"about {clock_time(now + start.seconds)}"
    return f"not before {clock_time(now + start.at_least)}" if start.at_least else "unknown"


def _foreign(queue: HostQueue) -> list[tuple[str, str]]:
    pids: dict[tuple[str, int], list[int]] = {}
    for process in queue.foreign:
        pids.setdefault((process.kind, process.device), []).append(process.pid)
    return [
        (f"{kind} {number}", f"pid {' '.join(map(str, found))}, outside rlx")
        for (kind, number), found in sorted(pids.items())
    ]


def _free(queue: HostQueue) -> list[tuple[str, str]]:
    kinds = sorted({kind for kind, _ in queue.free})
    return [(f"{kind} {ranges(number for found, number in queue.free if found == kind)}", "free") for kind in kinds]


def queue_document(queue: HostQueue) -> Mapping[str, Any]:
    """Return a host as JSON; times in seconds, `since` as UTC epochs by the host's clock."""
    return {
        "host": queue.host,
        "inside": queue.inside,
        "problem": queue.problem,
        "held": queue.held,
        "waiting": queue.waiting,
        "foreign": queue.foreign,
        "free": [{"kind": kind, "device": number} for kind, number in queue.free],
        "jobs": queue.jobs,
        "resources": queue.resources,
    }


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table in which place and owner go first where there is no room; times and reasons may wrap."""
    columns = []
    for heading, *cells in zip(headings, *rows, strict=True):
        # Cells hold times of this machine's clock; their zone is in the heading, once.
        title = f"{heading} ({time_zone()})" if any(_CLOCK.search(cell) for cell in cells) else heading
        columns.append(Column(title, cells, rank=_RANKS.get(heading, 0), flows=heading in _FLOWING))
    return Table(columns)


def short_names(run_ids: Sequence[str]) -> Mapping[str, str]:
    """Map each run id to its name without the time stamp, where that name is unique here."""
    short = {run_id: _STAMP.sub("", run_id) for run_id in run_ids}
    used = Counter(short.values())
    return {run_id: name if used[name] == 1 else run_id for run_id, name in short.items()}


def job_parts(jobs: Sequence[QueuedJob], width: int, now: float) -> list[Any]:
    """Return two tables of jobs, those that have nodes and those that wait; of jobs outside rlx only the first few."""
    from rich.text import Text

    names = short_names([job.run_id for job in jobs if job.run_id])
    having, waiting = [job for job in jobs if not job.waits], [job for job in jobs if job.waits]
    parts: list[Any] = []
    for heads, listed, tell in ((_HAVING, having, _held), (_WAITING, waiting, _wanted)):
        shown = _shown(listed)
        if shown:
            parts.append(fitted(_table(heads, [tell(job, names, now) for job in shown]), width))
        if more := len(listed) - len(shown):
            parts.append(Text(f"and {more} more jobs outside rlx"))
    return parts or [Text("no job is running or waiting here")]


def _shown(jobs: Sequence[QueuedJob]) -> list[QueuedJob]:
    """Return all runs and the first other jobs, in their order."""
    others = [job for job in jobs if job.run_id is None][:_MOST_OTHERS]
    return [job for job in jobs if job.run_id is not None or job in others]


def _held(job: QueuedJob, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    end = f"at the latest {clock_time(job.end)}" if job.end is not None else "unknown"
    return (*_job(job, names, now), end, job.where)


def _wanted(job: QueuedJob, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    start = f"about {clock_time(job.start)}" if job.start is not None else "unknown"
    return (*_job(job, names, now), start, job.reason)


def _job(job: QueuedJob, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    name = names[job.run_id] if job.run_id else f"({job.name})"
    return job.number, _devices(job), name, job.user, duration(max(0.0, now - job.since))


def _devices(job: QueuedJob) -> str:
    if job.nodes == 1:
        return job.devices or "1 node"
    return f"{job.nodes} nodes, {job.devices} each" if job.devices else f"{job.nodes} nodes"


def lease_lines(leases: Leases) -> list[str]:
    """Return a line per device in use, then who waits, then what is free; nothing if no device was ever leased."""
    now = leases.now
    held = [
        f"{lease.kind} {lease.device}  {lease.run_id}  {_owner(lease.user, lease.container, now - lease.since)}"
        + ("  (its holder is gone)" if lease.outlives_holder else "")
        for lease in leases.held
    ]
    foreign = [f"{kind} {device}  in use by {pids}, outside rlx" for kind, device, pids in _by_device(leases)]
    waiting = [
        f"waits for {wish_words(ticket)}  {ticket.run_id}  {_owner(ticket.user, ticket.container, now - ticket.since)}"
        for ticket in leases.waiting
    ]
    return [*held, *foreign, *waiting, *_free_lines(leases)]


def _owner(user: str, container: str | None, seconds: float) -> str:
    where = f" in {container[:12]}" if container else ""
    return f"{user}{where}, for {duration(max(0.0, seconds))}"


def _by_device(leases: Leases) -> Iterable[tuple[str, int, str]]:
    devices = sorted({(process.kind, process.device) for process in leases.foreign})
    for kind, device in devices:
        pids = [process.pid for process in leases.foreign if (process.kind, process.device) == (kind, device)]
        yield kind, device, f"pid{'s' * (len(pids) != 1)} {' '.join(map(str, pids))}"


def _free_lines(leases: Leases) -> list[str]:
    foreign = {(process.kind, process.device) for process in leases.foreign}
    free = [device for device in leases.free if device not in foreign]
    return [
        f"free: {kind} {' '.join(str(number) for found, number in free if found == kind)}"
        for kind in sorted({kind for kind, _ in free})
    ]


def wish_words(waiter: Waiter | Ticket) -> str:
    """Return which devices a run waits for: `npu 0-3`, `any 4 npu`, or `npu` if that is unknown."""
    if waiter.count is None or waiter.could is None:
        return waiter.kind
    if waiter.count == len(waiter.could):
        return f"{waiter.kind} {ranges(waiter.could)}"
    return f"any {waiter.count} {waiter.kind}"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as `0-3,7`."""
    runs = [
        [number for _, number in group]
        for _, group in groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])
    ]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
