"""Mirror the evidence of runs on other machines, so that it can be read like a local run's.

`RLX_HOME/mirror/<run id>/` is laid out like a run directory and holds what evidence and verdict need: of a console log
only the lines that rlx reads, of a validation's answers only their number. It is a cache: if it is removed, the next
query copies it again. Runs on this machine are read in place.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.hosts import Completed, transport_for
from rlx.hosts.host_errors import HostError, reading_answer
from rlx.hosts.script_parts import run_part
from rlx.model import Place, RunState
from rlx.model.run_dir import EVENTS_DIR, EXIT_FILE, LOG_FILE, METRICS_FILE, STATE_DIR, STOP_FILE, VALIDATION_DIR
from rlx.runs.copies import mirror_store, mirror_wire
from rlx.runs.copies.mirror_store import Copied, Cursor
from rlx.runs.copies.mirror_wire import FileFrame, MirrorRequest
from rlx.runs.queries import DEADLINE_S, QueryResult, query_places
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.status.host_report import recorded_code, recorded_end

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index

WHOLE_DEADLINE_S = 24 * 3600.0
_WHOLE_TIMEOUT_S = 120.0
_PATIENCE_S = 10.0
"""A status waits this long for logs of gigabytes; the next one continues."""


@dataclass(frozen=True)
class RunFiles:
    """A run's files on this machine, laid out as in a run directory. Its end is read once.

    `as_of`: when they were copied, as an epoch; None: they are current. `lacks`: what is missing, as a sentence; empty
    if nothing. `problem`: why the host could not be queried this time. `outputs`: the files of validations on the host,
    of which only the number of answers is copied.
    """

    run_dir: Path
    as_of: float | None = None
    lacks: str = ""
    problem: RlxError | None = None
    outputs: Mapping[str, Copied] = field(default_factory=dict)

    @cached_property
    def end(self) -> RunState | None:
        """Return the end of the run by the exit record of its latest attempt; None if it has none here."""
        return recorded_end(self._record, stop_asked=self._stop_asked)

    @property
    def _stop_asked(self) -> bool:
        """Tell whether a stop of the latest attempt was requested. A copy keeps the marker of an earlier one, too."""
        requested = _text_of(self.run_dir / STOP_FILE)
        moved = [_text_of(attempt / STATE_DIR / STOP_FILE) for attempt in RunPaths(self.run_dir).attempts]
        return requested is not None and requested not in moved

    @property
    def exit_code(self) -> int | None:
        """Return the shell's exit status in that record; None if there is none here."""
        return recorded_code(self._record)

    @cached_property
    def _record(self) -> str:
        return _text_of(RunPaths(self.run_dir).latest / STATE_DIR / EXIT_FILE) or ""

    @property
    def final_state(self) -> RunState | None:
        """Return the final state if everything that evidence needs is here: no host can add to that."""
        return None if self.lacks else self.end


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace", encoding="utf-8")
    except OSError:
        return None


Copies = dict[str, RunFiles]
"""By the ids of the runs."""


def refresh(index: Index, refs: Sequence[RunRef], *, whole: bool = False) -> Copies:
    """Update the copies of these runs, in one call per place (`whole`: as many as needed), all places at once.

    Raises nothing for a host that does not answer: the copy stays as it is, with its time and the error.
    """
    home = folder_of(index)

    def copy(place: Place, root: str, ids: Sequence[str]) -> Copies:
        return mirrored(home, copy_runs(home, place, root, ids, whole=whole))

    distant = [ref for ref in refs if not ref.place.is_local]
    return gathered(index, refs, query_places(distant, copy, WHOLE_DEADLINE_S if whole else DEADLINE_S))


def gathered(index: Index, refs: Iterable[RunRef], result: QueryResult[Copies]) -> Copies:
    """Return the files of these runs by id: as just copied, else as the copy was before."""
    home, found = folder_of(index), dict[str, RunFiles]()
    for answer in result.answers:
        found |= answer
    for ref in refs:
        if ref.place.is_local:
            found[ref.run_id] = _near(ref)
        elif ref.run_id not in found:
            found[ref.run_id] = _as_it_was(home, ref.run_id, result.failures[ref.place])
    return found


def folder_of(index: Index) -> Path:
    """Return the folder of the copies of all runs."""
    return index.path.parent / "mirror"


def kept(index: Index, refs: Iterable[RunRef]) -> Copies:
    """Return the files of these runs by id as they are on this machine; no host is queried."""
    home, found = folder_of(index), dict[str, RunFiles]()
    for ref in refs:
        if ref.place.is_local:
            found[ref.run_id] = _near(ref)
        else:
            found[ref.run_id] = _as_it_was(home, ref.run_id, HostError(f"{ref.host}: not asked again yet"))
    return found


def _near(ref: RunRef) -> RunFiles:
    """Read it in place. Root in a container may have written files that this user cannot read."""
    for attempt in RunPaths(ref.run_dir).attempts:
        files = [attempt / name for name in (LOG_FILE, METRICS_FILE, EVENTS_DIR, VALIDATION_DIR)]
        files += [path for name in (EVENTS_DIR, VALIDATION_DIR) for path in attempt.glob(f"{name}/*.jsonl")]
        for path in files:
            if os.access(path, os.F_OK) and not os.access(path, os.R_OK):
                return RunFiles(ref.run_dir, lacks=f"{path} may not be read by this user")
    return RunFiles(ref.run_dir)


def _as_it_was(home: Path, run_id: str, problem: RlxError) -> RunFiles:
    cursor = mirror_store.read_cursor(home / run_id)
    return replace(_mirrored(home / run_id, cursor), as_of=cursor.as_of, problem=problem)


def mirrored(home: Path, cursors: Mapping[str, Cursor]) -> Copies:
    return {run_id: _mirrored(home / run_id, cursor) for run_id, cursor in cursors.items()}


def _mirrored(folder: Path, cursor: Cursor) -> RunFiles:
    outputs = {path: file for path, file in cursor.files.items() if f"/{VALIDATION_DIR}/" in path}
    return RunFiles(folder, lacks="; ".join(_lacking(cursor)), outputs=outputs)


def _lacking(cursor: Cursor) -> Iterable[str]:
    for path, file in cursor.files.items():
        if file.denied:
            yield f"{'the run directory' if path == '.' else path} may not be read by this user of its host"
    waiting = {path: file for path, file in cursor.files.items() if file.left and not file.denied}
    if waiting:
        what = f"{next(iter(waiting))} is" if len(waiting) == 1 else f"{len(waiting)} files are"
        done = sum(file.bytes for file in waiting.values())
        total = done + sum(file.left for file in waiting.values())
        yield f"{what} still being copied: {done >> 20} of {math.ceil(total / 2**20)} MB"


def copy_runs(home: Path, place: Place, root: str, ids: Sequence[str], *, whole: bool) -> dict[str, Cursor]:
    """Update the copies below `home`, and return how far each goes. Raises RlxError for a host that does not answer.

    Makes one call, and more if something is left: until nothing is (`whole`), or as long as a user would wait.
    """
    until, timeout_s = limits(whole=whole)
    cursors = _copy_once(home, place, root, ids, timeout_s)
    return copy_on(home, place, root, cursors, until, whole=whole)


def limits(*, whole: bool) -> tuple[float, float]:
    """Return until when a copy that begins now may go on (monotonic clock), and the timeout of one command."""
    return (math.inf, _WHOLE_TIMEOUT_S) if whole else (time.monotonic() + _PATIENCE_S, DEADLINE_S)


def copy_on(
    home: Path, place: Place, root: str, cursors: dict[str, Cursor], until: float, *, whole: bool = False
) -> dict[str, Cursor]:
    """Continue until nothing is left, or until `until` (monotonic clock), and return the cursors. Raises RlxError."""
    waiting: Sequence[str] = list(cursors)
    while time.monotonic() < until and (behind := [run_id for run_id in waiting if cursors[run_id].left]):
        before = _reached(cursors, behind)
        # All calls together keep to the deadline of one.
        timeout_s = _WHOLE_TIMEOUT_S if whole else DEADLINE_S - _PATIENCE_S + until - time.monotonic()
        cursors |= _copy_once(home, place, root, behind, timeout_s)
        # A file that makes no progress, such as one that may not be read, is not requested again.
        waiting = behind if _reached(cursors, behind) != before else []
    return cursors


def _reached(cursors: Mapping[str, Cursor], ids: Sequence[str]) -> list[tuple[str, str, int]]:
    return [(run_id, path, file.bytes) for run_id in ids for path, file in cursors[run_id].files.items()]


def _copy_once(home: Path, place: Place, root: str, ids: Sequence[str], timeout_s: float) -> dict[str, Cursor]:
    mirror_request, now = request(home, root, ids, timeout_s), time.time()
    return take(home, place, ids, mirror_request, run_part(transport_for(place), mirror_request.part, timeout_s), now)


def request(home: Path, root: str, ids: Sequence[str], timeout_s: float) -> MirrorRequest:
    """Write the request for a place, by how far the copies go."""
    known = {
        f"{run_id}/{path}": (file.inode, file.bytes)
        for run_id in ids
        for path, file in mirror_store.read_cursor(home / run_id).files.items()
    }
    return mirror_wire.request(root, ids, known, timeout_s)


def take(
    home: Path, place: Place, ids: Sequence[str], mirror_request: MirrorRequest, done: Completed, now: float
) -> dict[str, Cursor]:
    """Add the answer to a request of `now` to the copies. Raises RlxError."""
    frames = mirror_wire.frames_of(place, mirror_request, done)
    with reading_answer(place.host, mirror_wire.NAME):
        of_run: dict[str, list[FileFrame]] = {run_id: [] for run_id in ids}
        for frame in frames:
            of_run.get(frame.path.partition("/")[0], []).append(frame)
        try:
            return {run_id: mirror_store.add(home / run_id, own, now) for run_id, own in of_run.items()}
        except OSError as problem:
            raise RlxError(
                f"{problem.filename or home}: {problem.strerror}",
                "check whether the disk is full; nothing was deleted on the host",
            ) from None
