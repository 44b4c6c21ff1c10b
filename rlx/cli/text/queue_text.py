"""The queues of hosts as tables and as JSON."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlx.cli.text.device_words import ranges, wish_words
from rlx.runs.duration import clock_time, duration

if TYPE_CHECKING:
    from rich.console import Group

    from rlx.cli.text.fitting_table import Column
    from rlx.runs.looking.forecast import Estimate
    from rlx.runs.looking.host_queue import Holder, HostQueue, Waiter

_STAMP = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}(?=$|-node)")


def queue_tables(queues: Sequence[HostQueue], width: int) -> Group:
    """Two tables a host, who has its devices and who waits, at most `width` cells wide.

    Their runs are numbered, so that there is room to say behind whom one waits. A line for a host that does not answer.
    """
    from rich.console import Group

    now = time.time()
    return Group(*(part for queue in queues for part in _parts(queue, width, now)))


def _parts(queue: HostQueue, width: int, now: float) -> list[Any]:
    from rich.text import Text

    from rlx.cli.text.fitting_table import fitting_table

    inside = f", in container {queue.inside[:12]}" if queue.inside else ""
    title = Text(f"{queue.host}{inside}", "bold")
    if queue.problem is not None:
        return [Text(queue.problem)]
    names = _names([*(each.run_id for each in queue.held), *(each.run_id for each in queue.waiting)])
    numbers = {run_id: str(number) for number, run_id in enumerate(names, 1)}
    having, waiting = _having(queue, names, numbers, now), _waiting(queue, names, numbers, now)
    tables: list[Any] = [fitting_table(columns, width) for columns in (having, waiting) if columns[0].cells]
    return [title, *(tables or [Text("nothing was ever leased here")])]


def _having(queue: HostQueue, names: Mapping[str, str], numbers: Mapping[str, str], now: float) -> list[Column]:
    """Who has devices, those that somebody outside rlx uses, and the free ones."""
    held = [
        (
            numbers[each.run_id],
            f"{each.kind} {ranges(each.devices)}",
            names[each.run_id],
            each.user,
            _since(each, now),
            _end(each, now),
        )
        for each in queue.held
    ]
    others = [("", devices, who, "", "", "") for devices, who in (*_foreign(queue), *_free(queue))]
    return _columns(("#", "DEVICES", "RUN", "OWNER", "FOR", "ENDS"), [*held, *others])


def _waiting(queue: HostQueue, names: Mapping[str, str], numbers: Mapping[str, str], now: float) -> list[Column]:
    rows = [
        (
            numbers[each.run_id],
            wish_words(each),
            names[each.run_id],
            each.user,
            _since(each, now),
            start_words(each.start, now),
            ", ".join(numbers[run_id] for run_id in each.behind) or "nobody",
        )
        for each in queue.waiting
    ]
    return _columns(("#", "WAITS FOR", "RUN", "OWNER", "FOR", "STARTS", "BEHIND"), rows)


def _columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Column]:
    """The owner can be done without, then since when; what is to come may take several lines."""
    from rlx.cli.text.fitting_table import Column

    ranks, flowing = {"OWNER": 2, "FOR": 1}, {"ENDS", "STARTS", "BEHIND"}
    cells = [[row[place] for row in rows] for place in range(len(headings))]
    return [
        Column(heading, column, rank=ranks.get(heading, 0), flows=heading in flowing)
        for heading, column in zip(headings, cells, strict=True)
    ]


def _names(run_ids: Sequence[str]) -> Mapping[str, str]:
    """Run id -> its name without the stamp, where that is nobody else's here."""
    short = {run_id: _STAMP.sub("", run_id) for run_id in run_ids}
    used = Counter(short.values())
    return {run_id: name if used[name] == 1 else run_id for run_id, name in short.items()}


def _since(each: Holder | Waiter, now: float) -> str:
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
    }
