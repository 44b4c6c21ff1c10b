"""Brings the copies of runs up to date: what is asked of their host, and what becomes of its answer."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlx.errors import RlxError
from rlx.hosts import Completed, transport_for
from rlx.hosts.host_errors import reading_answer
from rlx.hosts.script_parts import run_part
from rlx.model import Place
from rlx.runs.copies import mirror_store, mirror_wire
from rlx.runs.copies.mirror_store import Cursor
from rlx.runs.copies.mirror_wire import Frame, Request
from rlx.runs.looking.fan_out import DEADLINE_S

_PATIENCE_S = 10.0
"""A status waits this long for logs of gigabytes; the rest comes with the next one."""
_WHOLE_TIMEOUT_S = 120.0


def copy_runs(home: Path, place: Place, root: str, ids: Sequence[str], *, whole: bool) -> dict[str, Cursor]:
    """Bring the copies below `home` up to date, and say how far each goes. Raises RlxError for a host that is silent.

    One call, and more where something is left: until nothing is (`whole`), or while a person would wait.
    """
    until, timeout_s = limits(whole=whole)
    cursors = _copy_once(home, place, root, ids, timeout_s)
    return copy_on(home, place, root, cursors, until, whole=whole)


def limits(*, whole: bool) -> tuple[float, float]:
    """When nobody waits any longer for a copy that begins now, on the monotonic clock, and how long for one command."""
    return (math.inf, _WHOLE_TIMEOUT_S) if whole else (time.monotonic() + _PATIENCE_S, DEADLINE_S)


def copy_on(
    home: Path, place: Place, root: str, cursors: dict[str, Cursor], until: float, *, whole: bool = False
) -> dict[str, Cursor]:
    """The cursors when nothing is left, or `until` is over (on the monotonic clock). Raises RlxError."""
    waiting: Sequence[str] = list(cursors)
    while time.monotonic() < until and (behind := [run_id for run_id in waiting if cursors[run_id].left]):
        before = _reached(cursors, behind)
        # Together they keep to the deadline of one call.
        timeout_s = _WHOLE_TIMEOUT_S if whole else DEADLINE_S - _PATIENCE_S + until - time.monotonic()
        cursors |= _copy_once(home, place, root, behind, timeout_s)
        # What may not be read, or does not come for another reason, is not asked for without end.
        waiting = behind if _reached(cursors, behind) != before else []
    return cursors


def _reached(cursors: Mapping[str, Cursor], ids: Sequence[str]) -> list[tuple[str, str, int]]:
    return [(run_id, path, file.bytes) for run_id in ids for path, file in cursors[run_id].files.items()]


def _copy_once(home: Path, place: Place, root: str, ids: Sequence[str], timeout_s: float) -> dict[str, Cursor]:
    asked, now = request(home, root, ids, timeout_s), time.time()
    return take(home, place, ids, asked, run_part(transport_for(place), asked.part, timeout_s), now)


def request(home: Path, root: str, ids: Sequence[str], timeout_s: float) -> Request:
    """Write what is asked of a place, by how far the copies go."""
    known = {
        f"{run_id}/{path}": (file.inode, file.bytes)
        for run_id in ids
        for path, file in mirror_store.read_cursor(home / run_id).files.items()
    }
    return mirror_wire.request(root, ids, known, timeout_s)


def take(
    home: Path, place: Place, ids: Sequence[str], asked: Request, done: Completed, now: float
) -> dict[str, Cursor]:
    """Put the answer to a request of `now` into the copies. Raises RlxError."""
    frames = mirror_wire.frames_of(place, asked, done)
    with reading_answer(place.host, mirror_wire.NAME):
        of_run: dict[str, list[Frame]] = {run_id: [] for run_id in ids}
        for frame in frames:
            of_run.get(frame.path.partition("/")[0], []).append(frame)
        return {run_id: _add(home / run_id, own, now) for run_id, own in of_run.items()}


def _add(folder: Path, frames: Sequence[Frame], now: float) -> Cursor:
    try:
        return mirror_store.add(folder, frames, now)
    except OSError as problem:
        raise RlxError(f"{folder}: {problem.strerror}", "is the disk full? what the host has is still there") from None
