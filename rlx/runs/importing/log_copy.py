"""The copy of a log that is followed: it grows at each look, as `attempts/<k>/log` of a run directory on this machine,
so that all that reads runs reads it too. Nothing is written where the log is. A log that starts
anew while it is being written becomes the next attempt: what was copied before stays. One that starts anew after its
run had ended belongs to another run.
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
_AT_ONCE = 64
_QUIET_S = 900.0
"""Where nobody can be seen writing, and somebody may: a log that is older than this is not being written. A step with
a long rollout takes minutes."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The reach of a copy of the log: `bytes` of the file `inode`, and the checksum of the last of them."""

    inode: str = "0"
    bytes: int = 0
    sum: str = "0"


_NOTHING = Extent()


@dataclass(frozen=True, slots=True)
class LogCopy:
    """The reach of the copy: `extent` of attempt `attempt`, with `left` bytes yet to come.

    `changed` is when the log was last written and `now` when that was asked, by the clock of its host; `as_of` the same
    moment by this machine's; `silent_since` the first question in vain after it. `writers` as in LogAnswer; `gone`:
    there is no such file any more. `final`: nobody writes it, and all of it is here, so that nobody is asked again.
    """

    attempt: int = 1
    extent: Extent = _NOTHING
    left: int = 0
    changed: float = 0.0
    now: float = 0.0
    as_of: float | None = None
    silent_since: float | None = None
    writers: int | None = None
    gone: bool = False

    @property
    def final(self) -> bool:
        return self.left == 0 and (self.gone or self.writers == 0)

    @property
    def quiet_s(self) -> float:
        """The seconds for which the log had not been written when it was last looked at."""
        return max(0.0, self.now - self.changed)

    @property
    def is_written(self) -> bool:
        """True if somebody had it open for writing when it was last looked at, or may have had."""
        return not self.gone and (self.quiet_s < _QUIET_S if self.writers is None else self.writers > 0)


_NO_COPY = LogCopy()


def lacks(run_dir: Path) -> str:
    """Say why a followed log says too little for a verdict; empty if it does not, and for other runs."""
    if not _is_followed(run_dir):
        return ""
    copy = read_copy(run_dir)
    if copy.attempt > 1:
        return "its log was overwritten while it was followed: nothing says that all of it is of one run"
    return f"{copy.left >> 20} MB of its log are still to be copied" if copy.left else ""


def silent_as_of(run_dir: Path) -> float | None:
    """When a followed log was last seen, in seconds since 1970; None if its host answers, or for other runs."""
    copy = read_copy(run_dir) if _is_followed(run_dir) else _NO_COPY
    return copy.as_of if copy.silent_since and not copy.final else None


def _is_followed(run_dir: Path) -> bool:
    source = source_of(run_dir)
    return source is not None and source.followed


def read_copy(run_dir: Path) -> LogCopy:
    """Read how far the copy goes. Where the file is missing or damaged, all is copied again, as another attempt."""
    try:
        return from_jsonable(LogCopy, json.loads((run_dir / CURSOR_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, UsageError):
        attempts = len(RunPaths(run_dir).attempts)
        return LogCopy(attempt=attempts + 1 if attempts and RunPaths(run_dir).log.stat().st_size else max(attempts, 1))


def refresh_all(refs: Sequence[RunRef]) -> Mapping[str, tuple[LogCopy, RlxError | None]]:
    """The copies of the followed ones of these runs after a look at their logs, by id; and why a look was in vain."""
    followed = [ref for ref in refs if is_adopted(ref) and _is_followed(ref.run_dir)]
    # Those of a host that hangs must not keep the others waiting.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = pool.map(lambda ref: refresh(ref.run_dir), followed)
        return dict(zip([ref.run_id for ref in followed], looked, strict=True))


def refresh(run_dir: Path) -> tuple[LogCopy, RlxError | None]:
    """Copy what is new in the log, for some seconds at most: of a log of gigabytes the rest comes next time."""
    with locked_folder(run_dir):
        source, copy = read_source(run_dir), read_copy(run_dir)
        began, problem = time.monotonic(), None
        try:
            while not copy.final:
                # Together the questions keep to the deadline of one.
                timeout_s = DEADLINE_S + began - time.monotonic()
                copy = _take(run_dir, copy, ask_log(source.place, source.paths[0], copy.extent, timeout_s), time.time())
                if not copy.left or time.monotonic() - began > _PATIENCE_S:
                    break
        except RlxError as failure:
            problem, copy = failure, replace(copy, silent_since=copy.silent_since or time.time())
        write_value(run_dir / CURSOR_FILE, copy)
        return copy, problem


def _take(run_dir: Path, copy: LogCopy, answer: LogAnswer | None, now: float) -> LogCopy:
    if answer is None:
        return replace(copy, gone=True, writers=None, left=0, as_of=now, silent_since=None)
    if not answer.is_whole:
        return replace(copy, left=answer.length)
    started_anew = copy.extent.bytes > 0 and answer.start < copy.extent.bytes
    if started_anew and not copy.is_written:
        # What nobody wrote any more has not been overwritten by the same run.
        return replace(copy, gone=True, left=0, as_of=now, silent_since=None)
    attempt = copy.attempt + started_anew
    _append(run_dir, attempt, answer)
    return LogCopy(
        attempt=attempt,
        extent=answer.extent,
        left=answer.length - answer.extent.bytes,
        changed=answer.changed,
        now=answer.now,
        as_of=now,
        writers=answer.writers,
    )


def _append(run_dir: Path, attempt: int, answer: LogAnswer) -> None:
    """Append what is new, over what a killed rlx wrote beyond its cursor."""
    folder = run_dir / ATTEMPTS_DIR / str(attempt)
    (folder / STATE_DIR).mkdir(parents=True, exist_ok=True)
    with (folder / LOG_FILE).open("ab") as log:
        log.truncate(answer.start)
        log.write(answer.data)
    # As the supervisor notes it: it dates the lines for `rlx logs --since`.
    with (folder / STATE_DIR / CLOCK_FILE).open("a", encoding="utf-8") as clock:
        clock.write(f"{int(time.time())} {answer.extent.bytes}\n")
    point_latest(run_dir, attempt)


def point_latest(run_dir: Path, attempt: int) -> None:
    """Point to this attempt, so that what reads the log of a run reads it from now on."""
    link = run_dir / f".{LATEST_LINK}-{attempt}"
    link.unlink(missing_ok=True)
    link.symlink_to(f"{ATTEMPTS_DIR}/{attempt}")
    link.replace(run_dir / LATEST_LINK)


# Little enough to come in time over a slow line.
_MOST_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """`data` goes from `start` to `extent.bytes`; `start` is 0 where the log is not the file that the copy is of.

    `length` is the log's in bytes; `changed` and `now` are seconds since 1970 by the host's clock. `writers` counts
    the processes that have it open for writing; None if there may be some that this user cannot see.
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
        """False if the log shrank while it was read."""
        return self.start + len(self.data) == self.extent.bytes


def ask_log(place: Place, path: str, known: Extent, timeout_s: float = DEADLINE_S) -> LogAnswer | None:
    """Ask what is new since `known`; None if there is no such file (any more).

    Raises HostError if the place cannot be asked, RlxError if the file cannot be read.
    """
    mark = secrets.token_hex(8)
    arguments = (path, known.inode, str(known.bytes), known.sum, str(_MOST_BYTES), mark)
    cmd = Cmd("sh", "-s", "--", *arguments)
    done = transport_for(place).run(cmd, stdin=_script().encode(), timeout_s=timeout_s)
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
        return _answer(words, data, place, path)


_REASONS = {"log": "", "denied": "this user may not read it", "other": "it is no file"}


@cache
def _script() -> str:
    return (payload_folder() / "adopted.sh").read_text(encoding="utf-8")


def _answer(words: list[str], data: bytes, place: Place, path: str) -> LogAnswer:
    inode, start, end, sum_, size, changed, now, writers, how = words
    try:
        data = zlib.decompressobj(wbits=31).decompress(data, _MOST_BYTES) if how == "gzip" else data
    except zlib.error as problem:
        raise RlxError(f"{place.host}: {path} arrived damaged: {problem}", exit_code=ExitCode.UNREACHABLE) from None
    extent = Extent(inode, int(end), sum_)
    seen = None if writers == "-" else int(writers)
    return LogAnswer(extent, int(start), int(size), epoch_of(changed), epoch_of(now), seen, data)


def observe_adopted(refs: Sequence[RunRef]) -> Mapping[str, Observation]:
    """The observations by id, after a look at each log that is followed. A silent host raises nothing."""
    looked = refresh_all(refs)
    return {
        ref.run_id: _observation(ref, *looked[ref.run_id]) if ref.run_id in looked else _imported(ref) for ref in refs
    }


def _imported(ref: RunRef) -> Observation:
    """Conclude from the logs alone, because nobody knows what became of the run's processes."""
    attempts, shows_end = RunPaths(ref.run_dir).attempts, _shows_its_end(ref)
    end = "shows its last step" if shows_end else "does not show its end"
    return Observation(
        run_id=ref.run_id,
        state=RunState.FINISHED if shows_end else RunState.LOST,
        attempt=len(attempts),
        log_bytes=RunPaths(ref.run_dir).log.stat().st_size,
        detail=f"imported from {read_source(ref.run_dir)}: it {end}; nobody recorded how the command ended",
    )


def unasked_adopted(refs: Sequence[RunRef], failure: RlxError) -> Mapping[str, Observation]:
    """Conclude from their copies, by id, where their host has just failed to answer."""
    return {
        ref.run_id: _observation(ref, read_copy(ref.run_dir), failure)
        if read_source(ref.run_dir).followed
        else _imported(ref)
        for ref in refs
    }


def _observation(ref: RunRef, copy: LogCopy, problem: RlxError | None) -> Observation:
    state, detail = _state(ref, copy)
    source, started_anew = read_source(ref.run_dir), copy.attempt - 1
    if started_anew:
        detail += f"; the log was overwritten {started_anew}×, what was there before is kept as an attempt"
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
    """Running takes somebody who writes. Finished takes a log that shows its last step, since nothing recorded how the
    command ended; otherwise the run is lost, as any run that nobody lives of and that recorded no end."""
    if copy.is_written:
        ago = f"last written {duration(copy.quiet_s)} ago"
        return RunState.RUNNING, "a process has it open for writing" if copy.writers else f"{ago}, by whom is not seen"
    why = "the log is gone or another run's" if copy.gone else "nobody writes the log any more"
    if copy.writers is None and not copy.gone:
        why = f"last written {duration(copy.quiet_s)} ago; who would write it is not seen from there"
    if _shows_its_end(ref):
        return RunState.FINISHED, f"{why}, and it shows the last step; nobody recorded how the command ended"
    return RunState.LOST, f"{why}, and it does not show its end"


def _shows_its_end(ref: RunRef) -> bool:
    parsed = ParsedFiles(ref.run_dir.parents[2])  # RLX_HOME/adopted/runs/<run id>
    evidence, manifest = read_evidence(RunPaths(ref.run_dir).attempts, parsed), read_manifest(ref.run_dir)
    total = evidence.total_steps or (manifest.plan.expectations.total_steps if manifest else None)
    return total is not None and evidence.last_step >= total
