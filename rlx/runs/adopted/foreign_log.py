"""A log on a host that rlx does not write itself: asks what is new in it, and who writes it."""

from __future__ import annotations

import secrets
import zlib
from dataclasses import dataclass
from functools import cache

from rlx.errors import ExitCode, RlxError
from rlx.hosts import transport_for
from rlx.hosts.host_errors import reading_answer
from rlx.model import Cmd, Place
from rlx.resources import payload_folder
from rlx.runs.looking.fan_out import DEADLINE_S
from rlx.runs.looking.state import epoch_of

# Little enough to come in time over a slow line.
_MOST_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class Extent:
    """The reach of a copy of the log: `bytes` of the file `inode`, and the checksum of the last of them."""

    inode: str = "0"
    bytes: int = 0
    sum: str = "0"


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
