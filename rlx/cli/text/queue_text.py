"""The queues of hosts as tables and as JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlx.cli.text.device_words import ranges, wish_words
from rlx.cli.text.queue_table import queue_table, short_names
from rlx.runs.duration import clock_time, duration
from rlx.table import Table

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.runs.looking.forecast import Estimate
    from rlx.runs.looking.host_queue import Holder, HostQueue, Waiter


def queue_tables(queues: Sequence[HostQueue], width: int) -> Group:
    """Two tables a host, who has its devices and who waits, at most `width` cells wide.

    Their runs are numbered, so that there is room to say behind whom one waits. A line for a host that does not answer.
    """
    from rich.console import Group

    now = time.time()
    return Group(*(part for queue in queues for part in _parts(queue, width, now)))


def _parts(queue: HostQueue, width: int, now: float) -> list[Any]:
    from rich.text import Text

    from rlx.cli.text.table_text import fitted

    inside = f", in container {queue.inside[:12]}" if queue.inside else ""
    title = Text(f"{queue.host}{inside}", "bold")
    if queue.problem is not None:
        return [Text(queue.problem)]
    if queue.jobs is not None:
        from rlx.cli.text.job_text import job_parts

        return [title, *job_parts(queue.jobs, width, now)]
    names = short_names([*(each.run_id for each in queue.held), *(each.run_id for each in queue.waiting)])
    numbers = {run_id: str(number) for number, run_id in enumerate(names, 1)}
    having, waiting = _having(queue, names, numbers, now), _waiting(queue, names, numbers, now)
    tables: list[Any] = [fitted(table, width) for table in (having, waiting) if table.rows]
    return [title, *(tables or [Text("nothing was ever leased here")])]


def _having(queue: HostQueue, names: Mapping[str, str], numbers: Mapping[str, str], now: float) -> Table:
    """Who has devices, those that somebody outside rlx uses, and the free ones."""
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
    return queue_table(("#", "DEVICES", "RUN", "OWNER", "FOR", "ENDS"), [*held, *others])


def _waiting(queue: HostQueue, names: Mapping[str, str], numbers: Mapping[str, str], now: float) -> Table:
    rows = [
        (
            numbers[each.run_id],
            wish_words(each),
            names[each.run_id],
            each.user,
            _since(each, queue.now),
            start_words(each.start, now),
            ", ".join(numbers[run_id] for run_id in each.behind) or "nobody",
        )
        for each in queue.waiting
    ]
    return queue_table(("#", "WAITS FOR", "RUN", "OWNER", "FOR", "STARTS", "BEHIND"), rows)


def _since(each: Holder | Waiter, now: float) -> str:
    """Both by the clock of the host; when something ends is told by this machine's."""
    return duration(max(0.0, now - each.since))


def _end(holder: Holder, now: float) -> str:
    known = f"about {clock_time(now + holder.seconds_left)}" if holder.seconds_left is not None else "unknown"
    return f"{known} (its holder is gone)" if holder.outlives_holder else known


def start_words(start: Estimate, now: float) -> str:
    """Say when a run starts, as far as that is known."""
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
    """Show a host as JSON; times in seconds, `since` as UTC epochs by the host's clock."""
    return {
        "host": queue.host,
        "inside": queue.inside,
        "problem": queue.problem,
        "held": queue.held,
        "waiting": queue.waiting,
        "foreign": queue.foreign,
        "free": [{"kind": kind, "device": number} for kind, number in queue.free],
        "jobs": queue.jobs,
    }
