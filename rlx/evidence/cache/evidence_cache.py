"""The evidence of a run as it was read the last time, so that a run in which nothing has changed costs nothing.

One file a run: a line of JSON with its checksum, then the noise events and the metrics column by column, each with a
checksum of its own, of which only what somebody asks for is read. It counts for exactly the files it was made from
(`digest`). Where a part of it is damaged the run is read anew.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import astuple, fields
from operator import attrgetter
from typing import Any, Protocol

from rlx.evidence.cache.checked_sections import Again, Body, Columns, Events, Parts
from rlx.evidence.cache.parser_state import end_of_line
from rlx.evidence.reading.metric_table import MetricTable
from rlx.evidence.run_evidence import Announcement, Disagreement, Evidence, NoiseEvent, Progress, Restart, Totals

_event = attrgetter(*(field.name for field in fields(NoiseEvent)))


class Shelf(Protocol):
    """The place where evidence is kept. Both may fail silently: what is gone only costs time."""

    def peek(self, name: str) -> memoryview | None: ...

    def save(self, name: str, parts: Sequence[bytes]) -> None: ...


def keep(evidence: Evidence, name: str, digest: str, shelf: Shelf) -> None:
    """Save it for `kept`."""
    parts, columns = Parts(), dict[str, list[int]]()
    table = evidence.metrics if isinstance(evidence.metrics, MetricTable) else MetricTable()
    noise, steps = parts.add(json.dumps([*map(_event, evidence.noise)]).encode()), parts.shared(table.steps)
    for key, column in table.columns.items():
        columns[key] = [parts.shared(column.steps), parts.add(bytes(column.values))]
    document = {
        "of": digest,
        "evidence": _plain(evidence),
        "noise": [noise, len(evidence.noise)],
        "steps": steps,
        "columns": columns,
        "parts": parts.places,
    }
    head = json.dumps(document).encode()
    head += b" " * (-(len(head) + 10) % 8) + b"\n"
    shelf.save(name, [b"%08x " % zlib.crc32(head), head, *parts.data])


def _plain(evidence: Evidence) -> dict[str, Any]:
    """Write the small parts as JSON."""
    return {
        "totals": astuple(evidence.totals),
        "progress": evidence.progress,
        "disagreements": [[each.step, each.key, each.sources, each.values] for each in evidence.disagreements],
        "restarts": [astuple(restart) for restart in evidence.restarts],
        "attempts": evidence.attempts,
        "answers": list(evidence.answers.items()),
        "announced": evidence.announced,
        "has_hole": evidence.has_hole,
        "unproven": evidence.unproven,
    }


def kept(name: str, digest: str, shelf: Shelf, again: Again) -> Evidence | None:
    """Return what was kept of exactly these files, if it is whole. `again` is called where a part is damaged."""
    view = shelf.peek(name)
    try:
        return None if view is None else _unpacked(view, digest, again)
    except (ValueError, KeyError, TypeError, IndexError):
        return None  # of another version, of other files, or damaged


def _unpacked(view: memoryview, digest: str, again: Again) -> Evidence | None:
    end = end_of_line(view)
    head = bytes(view[9:end])
    if zlib.crc32(head) != int(bytes(view[:8]), 16):
        return None
    document = json.loads(head)
    if document["of"] != digest:
        return None
    body, plain, progress = Body(view[end:], document["parts"]), document["evidence"], document["evidence"]["progress"]
    steps, (noise, count) = body.part(document["steps"]).cast("q"), document["noise"]
    return Evidence(
        metrics=MetricTable(steps, Columns(document["columns"], steps[-1] if steps else 0, body, again)),
        noise=Events(noise, count, body, again),
        totals=Totals(*plain["totals"]),
        progress=Progress(*progress) if progress else None,
        disagreements=tuple(
            Disagreement(step, key, (mine, theirs), (value, other))
            for step, key, (mine, theirs), (value, other) in plain["disagreements"]
        ),
        restarts=tuple(Restart(*values) for values in plain["restarts"]),
        attempts=plain["attempts"],
        answers=dict(plain["answers"]),
        announced=tuple(Announcement(*values) for values in plain["announced"]),
        has_hole=plain["has_hole"],
        unproven=plain["unproven"],
        digest=digest,
    )
