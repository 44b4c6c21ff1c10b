"""The copy of a log that is followed: it grows at each look, as `attempts/<k>/log` of a run directory on this machine,
so that all that reads runs reads it too. Nothing is written where the log is. A log that starts
anew while it is being written becomes the next attempt: what was copied before stays. One that starts anew after its
run had ended belongs to another run.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rlx.errors import RlxError, UsageError
from rlx.model import from_jsonable
from rlx.model.run_dir import ATTEMPTS_DIR, CLOCK_FILE, LATEST_LINK, LOG_FILE, STATE_DIR
from rlx.runs.adopted.foreign_log import Extent, LogAnswer, ask_log
from rlx.runs.adopted.log_source import is_adopted, read_source, source_of, write_value
from rlx.runs.looking.fan_out import DEADLINE_S
from rlx.runs.run import RunPaths, RunRef

CURSOR_FILE = "cursor.json"
_PATIENCE_S = 10.0
_AT_ONCE = 64
_QUIET_S = 900.0
"""Where nobody can be seen writing, and somebody may: a log that is older than this is not being written. A step with
a long rollout takes minutes."""
_NOTHING = Extent()


@dataclass(frozen=True, slots=True)
class Copy:
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


_NO_COPY = Copy()


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


def read_copy(run_dir: Path) -> Copy:
    """Read how far the copy goes. Where the file is missing or damaged, all is copied again, as another attempt."""
    try:
        return from_jsonable(Copy, json.loads((run_dir / CURSOR_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, UsageError):
        attempts = len(RunPaths(run_dir).attempts)
        return Copy(attempt=attempts + 1 if attempts and RunPaths(run_dir).log.stat().st_size else max(attempts, 1))


def refresh_all(refs: Sequence[RunRef]) -> Mapping[str, tuple[Copy, RlxError | None]]:
    """The copies of the followed ones of these runs after a look at their logs, by id; and why a look was in vain."""
    followed = [ref for ref in refs if is_adopted(ref) and _is_followed(ref.run_dir)]
    # Those of a host that hangs must not keep the others waiting.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = pool.map(lambda ref: refresh(ref.run_dir), followed)
        return dict(zip([ref.run_id for ref in followed], looked, strict=True))


def refresh(run_dir: Path) -> tuple[Copy, RlxError | None]:
    """Copy what is new in the log, for some seconds at most: of a log of gigabytes the rest comes next time."""
    with _locked(run_dir):
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


@contextmanager
def _locked(run_dir: Path) -> Iterator[None]:
    """Let several rlx take turns; each adds where the one before it ended."""
    descriptor = os.open(run_dir, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _take(run_dir: Path, copy: Copy, answer: LogAnswer | None, now: float) -> Copy:
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
    return Copy(
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
