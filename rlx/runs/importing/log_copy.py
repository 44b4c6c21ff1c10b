"""Keep a copy of a tracked log, and derive the state of its run from it.

The copy grows with each query, as `attempts/<k>/log` of a run directory on this machine, so that everything that reads
runs can read it. Nothing is written where the log is. A log that is overwritten while its process writes it becomes the
next attempt; the copied part of the old one is kept. One that is overwritten later belongs to another run.
"""

from __future__ import annotations

import json
import secrets
import time
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.evidence import read_evidence
from rlx.hosts import transport_for
from rlx.hosts.host_errors import reading_answer
from rlx.local_files import locked_folder
from rlx.model import Cmd, Place, RunState, from_jsonable
from rlx.model.run_dir import ATTEMPTS_DIR, CLOCK_FILE, LATEST_LINK, LOG_FILE, STATE_DIR
from rlx.resources import payload_folder
from rlx.runs.duration import duration
from rlx.runs.importing.log_source import is_adopted, read_source, source_of, write_value
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import read_manifest
from rlx.runs.queries import DEADLINE_S
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.status.host_report import epoch_of
from rlx.runs.status.observation import Observation, unreachable

CURSOR_FILE = "cursor.json"
_PATIENCE_S = 10.0
_IN_PARALLEL = 64
_QUIET_S = 900.0
"""Where no writer can be seen: a log older than this is not being written. A long rollout takes minutes."""
_CLOSED_S = 60.0
"""The same where a writer was seen before. Some open the log anew for each line."""
_MOST_BYTES = 16 * 1024**2
"""Little enough to arrive in time over a slow connection."""
_REASONS = {"log": "", "denied": "this user may not read it", "other": "it is no file"}


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the copy of a log goes: `bytes` of the file `inode`, and the checksum of the last of them."""

    inode: str = "0"
    bytes: int = 0
    sum: str = "0"


@dataclass(frozen=True, slots=True)
class LogCopy:
    """How far the copy goes: `extent` of attempt `attempt`, with `left` bytes not copied yet.

    `changed` is when the log was last written and `now` when that was queried, by the clock of its host; `as_of` is the
    same moment by this machine's; `silent_since`: the first failed query after it. `writers` as in LogAnswer;
    `had_writer`: a process was seen that had it open for writing. `gone`: the file no longer exists, or another run
    writes it now.
    """

    attempt: int = 1
    extent: Extent = Extent()
    left: int = 0
    changed: float = 0.0
    now: float = 0.0
    as_of: float | None = None
    silent_since: float | None = None
    writers: int | None = None
    gone: bool = False
    had_writer: bool = False

    @property
    def final(self) -> bool:
        """Tell whether it is complete and no process writes the log, so that its host need not be queried again."""
        return self.left == 0 and (self.gone or self.writers == 0)

    @property
    def quiet_s(self) -> float:
        """Return for how many seconds the log had not been written when it was last queried."""
        return max(0.0, self.now - self.changed)

    @property
    def is_written(self) -> bool:
        """Tell whether a process had it open for writing when it was last queried, or may have had."""
        if self.gone or self.writers is not None:
            return not self.gone and bool(self.writers)
        return self.quiet_s < (_CLOSED_S if self.had_writer else _QUIET_S)


# ---- what other modules ask of a copy --------------------------------------------------------------------------------


def lacks(run_dir: Path) -> str:
    """Return why a tracked log is not enough for a verdict; empty if it is, and for other runs."""
    source = source_of(run_dir)
    if source is None or not source.followed:
        return ""
    copy = read_copy(run_dir)
    if copy.attempt > 1:
        return "its log was overwritten while it was followed: nothing says that all of it is of one run"
    return f"{copy.left >> 20} MB of its log are still to be copied" if copy.left else ""


def silent_as_of(run_dir: Path) -> float | None:
    """Return the epoch when a tracked log was last read; None if its host answers, or for other runs."""
    source = source_of(run_dir)
    if source is None or not source.followed:
        return None
    copy = read_copy(run_dir)
    return copy.as_of if copy.silent_since and not copy.final else None


def read_copy(run_dir: Path) -> LogCopy:
    """Read how far the copy goes. Where the file is missing or damaged, all is copied again, as another attempt."""
    try:
        return from_jsonable(LogCopy, json.loads((run_dir / CURSOR_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, UsageError):
        attempts = len(RunPaths(run_dir).attempts)
        return LogCopy(attempt=attempts + 1 if attempts and RunPaths(run_dir).log.stat().st_size else max(attempts, 1))


# ---- the state of the run --------------------------------------------------------------------------------------------


def observe_adopted(refs: Sequence[RunRef]) -> Mapping[str, Observation]:
    """Return the observations by id, after updating the copy of each tracked log. Raises nothing for a silent host."""
    copies = refresh_all(refs)
    return {
        ref.run_id: _observation(ref, *copies[ref.run_id]) if ref.run_id in copies else _imported(ref) for ref in refs
    }


def unasked_adopted(refs: Sequence[RunRef], failure: RlxError) -> Mapping[str, Observation]:
    """Return the observations by id, from the copies, after the host failed to answer."""
    return {
        ref.run_id: _observation(ref, read_copy(ref.run_dir), failure)
        if read_source(ref.run_dir).followed
        else _imported(ref)
        for ref in refs
    }


def _imported(ref: RunRef) -> Observation:
    """Conclude from the logs alone, because the end of the processes is not recorded."""
    attempts, shows_end = RunPaths(ref.run_dir).attempts, _shows_its_end(ref)
    end = "shows its last step" if shows_end else "does not show its end"
    return Observation(
        run_id=ref.run_id,
        state=RunState.FINISHED if shows_end else RunState.LOST,
        attempt=len(attempts),
        log_bytes=RunPaths(ref.run_dir).log.stat().st_size,
        detail=f"imported from {read_source(ref.run_dir)}: it {end}; how the command ended is not recorded",
    )


def _observation(ref: RunRef, copy: LogCopy, problem: RlxError | None) -> Observation:
    state, detail = _state(ref, copy)
    source, overwritten = read_source(ref.run_dir), copy.attempt - 1
    if overwritten:
        detail += f"; the log was overwritten {overwritten}×, what was there before is kept as an attempt"
    seen = Observation(
        run_id=ref.run_id,
        state=state,
        attempt=copy.attempt,
        members=copy.writers or 0,
        log_bytes=copy.extent.bytes + copy.left,
        seconds_since_log=copy.quiet_s + time.time() - (copy.as_of or time.time()),
        detail=f"adopted from {source}: {detail}",
    )
    if problem is None or copy.final:
        return seen
    return unreachable(seen, copy.as_of, problem, copy.silent_since or time.time())


def _state(ref: RunRef, copy: LogCopy) -> tuple[RunState, str]:
    """Derive the state: running if the log is written, finished if it shows the last step, otherwise lost.

    After the last step, a writer that cannot be seen counts as ended: at once if it was seen before. How the command
    ended is recorded nowhere.
    """
    may_have_ended = copy.writers is None and (copy.had_writer or copy.quiet_s >= _CLOSED_S)
    if copy.is_written and not (may_have_ended and not copy.left and _shows_its_end(ref)):
        ago = f"last written {duration(copy.quiet_s)} ago"
        why = "a process has it open for writing" if copy.writers else f"{ago}; its writer is not visible"
        return RunState.RUNNING, why
    if copy.gone:
        why = "the log is gone or another run's"
    elif copy.writers is None and copy.had_writer:
        why = "the process that wrote the log has ended"
    elif copy.writers is None:
        why = f"last written {duration(copy.quiet_s)} ago; its writer would not be visible there"
    else:
        why = "no process writes the log any more"
    if _shows_its_end(ref):
        return RunState.FINISHED, f"{why}, and it shows the last step; how the command ended is not recorded"
    return RunState.LOST, f"{why}, and it does not show its end"


def _shows_its_end(ref: RunRef) -> bool:
    parsed = ParsedFiles(ref.run_dir.parents[2])  # RLX_HOME/adopted/runs/<run id>
    evidence, manifest = read_evidence(RunPaths(ref.run_dir).attempts, parsed), read_manifest(ref.run_dir)
    total = evidence.total_steps or (manifest.plan.expectations.total_steps if manifest else None)
    return total is not None and evidence.last_step >= total


# ---- the copy --------------------------------------------------------------------------------------------------------


def refresh_all(refs: Sequence[RunRef]) -> Mapping[str, tuple[LogCopy, RlxError | None]]:
    """Update the copies of the tracked logs of these runs; by id, the copy and the error if its host did not answer."""
    tracked = [ref for ref in refs if is_adopted(ref) and read_source(ref.run_dir).followed]
    # In parallel: a host that hangs must not delay the others.
    with ThreadPoolExecutor(_IN_PARALLEL) as pool:
        results = pool.map(lambda ref: refresh(ref.run_dir), tracked)
        return dict(zip([ref.run_id for ref in tracked], results, strict=True))


def refresh(run_dir: Path) -> tuple[LogCopy, RlxError | None]:
    """Copy what is new in the log, for some seconds at most: of a log of gigabytes the rest comes next time."""
    with locked_folder(run_dir):
        source, copy = read_source(run_dir), read_copy(run_dir)
        began, problem = time.monotonic(), None
        try:
            while not copy.final:
                # All queries together keep to the deadline of one.
                timeout_s = DEADLINE_S + began - time.monotonic()
                answer = ask_log(source.place, source.paths[0], copy.extent, timeout_s)
                copy = _extend(run_dir, copy, answer, time.time())
                if not copy.left or time.monotonic() - began > _PATIENCE_S:
                    break
        except RlxError as failure:
            problem, copy = failure, replace(copy, silent_since=copy.silent_since or time.time())
        write_value(run_dir / CURSOR_FILE, copy)
        return copy, problem


def _extend(run_dir: Path, copy: LogCopy, answer: LogAnswer | None, now: float) -> LogCopy:
    """Append what is new, over what a killed rlx wrote beyond its cursor."""
    if answer is None:
        return replace(copy, gone=True, writers=None, left=0, as_of=now, silent_since=None)
    if not answer.is_whole:
        return replace(copy, left=answer.length)
    is_overwritten = copy.extent.bytes > 0 and answer.start < copy.extent.bytes
    if is_overwritten and not copy.is_written:
        # Its run had ended: the log is another run's.
        return replace(copy, gone=True, left=0, as_of=now, silent_since=None)
    attempt = copy.attempt + is_overwritten
    folder = run_dir / ATTEMPTS_DIR / str(attempt)
    (folder / STATE_DIR).mkdir(parents=True, exist_ok=True)
    with (folder / LOG_FILE).open("ab") as log:
        log.truncate(answer.start)
        log.write(answer.data)
    # In the format of the supervisor; it dates the lines for `rlx logs --since`.
    with (folder / STATE_DIR / CLOCK_FILE).open("a", encoding="utf-8") as clock:
        clock.write(f"{int(time.time())} {answer.extent.bytes}\n")
    point_latest(run_dir, attempt)
    left = answer.length - answer.extent.bytes
    return LogCopy(
        attempt,
        answer.extent,
        left,
        answer.changed,
        answer.now,
        now,
        writers=answer.writers,
        had_writer=copy.had_writer or bool(answer.writers),
    )


def point_latest(run_dir: Path, attempt: int) -> None:
    """Make `latest` point to this attempt, whose log is then the one that commands read."""
    link = run_dir / f".{LATEST_LINK}-{attempt}"
    link.unlink(missing_ok=True)
    link.symlink_to(f"{ATTEMPTS_DIR}/{attempt}")
    link.replace(run_dir / LATEST_LINK)


# ---- the log on its host ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """What is new in a log: `data` from `start` to `extent.bytes`; `start` is 0 if the log is another file.

    `length` is the log's in bytes; `changed` and `now` are epochs by the host's clock. `writers` counts the processes
    that have it open for writing; None if there may be some that this user cannot see.
    """

    extent: Extent
    start: int
    length: int
    changed: float
    now: float
    writers: int | None
    data: bytes

    @property
    def is_whole(self) -> bool:
        """Tell whether the log did not shrink while it was read."""
        return self.start + len(self.data) == self.extent.bytes


def ask_log(place: Place, path: str, known: Extent, timeout_s: float = DEADLINE_S) -> LogAnswer | None:
    """Query what is new since `known`; None if there is no such file (any more).

    Raises HostError if the place does not answer, RlxError if the file cannot be read.
    """
    mark = secrets.token_hex(8)
    cmd = Cmd("sh", "-s", "--", path, known.inode, str(known.bytes), known.sum, str(_MOST_BYTES), mark)
    done = transport_for(place).run(cmd, stdin=_script(), timeout_s=timeout_s)
    _, found, answer = done.out.partition(f"{mark} ".encode())
    head, _, data = answer.partition(b"\n")
    kind, *words = head.decode(errors="replace").split() or [""]
    if kind == "gone":
        return None
    if done.code != 0 or not found or kind not in _REASONS:
        complaint = done.err.decode(errors="replace").strip() or f"exit {done.code}"
        raise RlxError(f"{place.host}: {path} cannot be read: {complaint}")
    if kind != "log":
        raise RlxError(f"{place.host}: {path}: {_REASONS[kind]}", "name a console log that you can read there")
    with reading_answer(place.host, f"what is new in {path}"):
        return parse_log_answer(words, data, place, path)


@cache
def _script() -> bytes:
    return (payload_folder() / "adopted.sh").read_bytes()


def parse_log_answer(words: list[str], data: bytes, place: Place, path: str) -> LogAnswer:
    """Parse the header of an answer, and unpack its data. Raises ValueError, or RlxError for damaged data."""
    inode, start, end, sum_, size, changed, now, writers, how = words
    try:
        data = zlib.decompressobj(wbits=31).decompress(data, _MOST_BYTES) if how == "gzip" else data
    except zlib.error as problem:
        raise RlxError(f"{place.host}: {path} arrived damaged: {problem}", exit_code=ExitCode.UNREACHABLE) from None
    extent = Extent(inode, int(end), sum_)
    seen = None if writers == "-" else int(writers)
    return LogAnswer(extent, int(start), int(size), epoch_of(changed), epoch_of(now), seen, data)
