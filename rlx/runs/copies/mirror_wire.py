"""Speak with mirror.sh on a host: the request, and the frames of the answer."""

from __future__ import annotations

import math
import secrets
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from rlx.errors import RlxError
from rlx.evidence import MAX_LINE_BYTES, needles
from rlx.hosts import Completed
from rlx.hosts.host_errors import reading_answer
from rlx.hosts.script_parts import ScriptPart, slim
from rlx.model import Cmd, Place
from rlx.model.run_dir import (
    COMPOSED_FILE,
    EVENTS_DIR,
    EXIT_FILE,
    LINEAGE_FILE,
    LOG_FILE,
    MANIFEST_FILE,
    METRICS_FILE,
    PRINTED_FILE,
    PROVENANCE_FILE,
    STATE_DIR,
    STOP_FILE,
    USAGE_FILE,
    VALIDATION_DIR,
)
from rlx.resources import payload_folder
from rlx.runs import supervisor

NAME = "mirror.sh"
# A call reads at most this much of all logs, metrics and events, and at most that much of metrics and events: an
# answer has to fit into memory, here about three times, and to arrive in time over a slow connection.
_READ_BYTES = 60 << 20
_FILE_BYTES = 30 << 20
_MOST_BYTES = 64 << 20
# Limits of the lines that counted answers become, and of the number of files.
_MOST_LINES = 20_000_000
_MOST_FRAMES = 200_000
_LONGEST_HEADER = 8192
_GZIP_MAGIC = b"\x1f\x8b"
_LISTED = (
    (f"/{STATE_DIR}/{EXIT_FILE}", f"/{STOP_FILE}"),
    (
        *(
            f"/{file}"
            for file in (
                MANIFEST_FILE,
                LINEAGE_FILE,
                PROVENANCE_FILE,
                COMPOSED_FILE,
                PRINTED_FILE,
                METRICS_FILE,
                USAGE_FILE,
            )
        ),
        *(f"/{folder}/" for folder in (EVENTS_DIR, VALIDATION_DIR)),
    ),
    (f"/{LOG_FILE}",),
)


@dataclass(frozen=True, slots=True)
class FileFrame:
    """A piece of one file: its bytes from `start` to `end`, or what `how` says about them (see mirror.sh).

    `path` is relative to the folder of runs. `left` bytes are left for another call. The sums are of a few bytes before
    `start` and before `end`.
    """

    how: str
    inode: str
    start: int
    end: int
    left: int
    sum_before: str
    sum_after: str
    path: str
    data: bytes

    @property
    def is_whole(self) -> bool:
        """Tell whether the file neither shrank nor vanished while it was read."""
        if self.how == "count":
            return self.data.strip().isdigit()
        return self.how not in ("whole", "grown") or len(self.data) == self.end - self.start


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """A request to a place; `mark` begins each frame of its answer."""

    mark: str
    part: ScriptPart


def request(root: str, ids: Sequence[str], known: Mapping[str, tuple[str, int]], timeout_s: float) -> MirrorRequest:
    """Make the request for what is new in the files of these runs, read for a quarter of `timeout_s`.

    `known`: path -> (inode, bytes), up to where each file is copied.
    """
    mark = secrets.token_hex(16)
    sought = "\n".join(needle.decode() for needle in needles())
    limits = (str(MAX_LINE_BYTES), str(_READ_BYTES), str(_FILE_BYTES), str(math.ceil(timeout_s / 4)))
    return MirrorRequest(mark, ScriptPart(_asking(ids, known), (root, mark, sought, *limits)))


def frames_of(place: Place, mirror_request: MirrorRequest, done: Completed) -> list[FileFrame]:
    """Parse the answer to a request. Raises RlxError if it is incomplete."""
    with reading_answer(place.host, NAME):
        frames = parse_frames(_unpacked(done.out), mirror_request.mark) if done.code == 0 else None
    if frames is None:
        complaint = done.err.decode(errors="replace").strip() or f"exit {done.code}, the answer is not whole"
        raise RlxError(f"{place.host}: {NAME} failed: {complaint}", "try again; rlx doctor checks the host")
    return frames


def _asking(ids: Sequence[str], known: Mapping[str, tuple[str, int]]) -> bytes:
    places = {run_id: place for place, run_id in enumerate(ids)}
    files = [f"{known[path][0]} {known[path][1]} {path}" for path in sorted(known, key=partial(_as_listed, places))]
    call = Cmd("answer", "\n".join(ids), "\n".join(files)).raw()
    return _script() + call.encode(errors="surrogateescape")


def _as_listed(places: Mapping[str, int], path: str) -> tuple[int, int, int, bytes]:
    """Sort files as mirror.sh lists them, so that it detects at once that nothing is new."""
    for turn, kinds in enumerate(_LISTED):
        for place, kind in enumerate(kinds):
            if path.endswith(kind) or (kind.endswith("/") and kind in path):
                return turn, places[path.partition("/")[0]], place, path.encode(errors="surrogateescape")
    return len(_LISTED), 0, 0, b""


@cache
def _script() -> bytes:
    return slim(supervisor.layout() + (payload_folder() / NAME).read_text(encoding="utf-8"))


def _unpacked(answer: bytes) -> bytes:
    if not answer.startswith(_GZIP_MAGIC):
        return answer
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(answer, _MOST_BYTES)
    except zlib.error:
        return b""
    return text if unpacking.eof else b""


def parse_frames(answer: bytes, mark: str) -> list[FileFrame] | None:
    """Parse the frames of an answer; None if it is incomplete. Raises ValueError for more than the limits."""
    begin = mark.encode() + b" "
    frames: list[FileFrame] = []
    start = answer.find(begin)
    while start >= 0:
        start += len(begin)
        following = answer.find(begin, start)
        if following < 0:
            lines = sum(int(frame.data) for frame in frames if frame.how == "count" and frame.is_whole)
            if lines > _MOST_LINES:
                raise ValueError(f"{lines:,} lines of validation")
            return frames if answer[start:] == b"end\n" else None
        frames.append(_frame(answer, start, following))
        if len(frames) > _MOST_FRAMES:
            raise ValueError(f"more than {_MOST_FRAMES:,} files")
        start = following
    return None


def _frame(answer: bytes, start: int, end: int) -> FileFrame:
    line = answer.find(b"\n", start, min(end, start + _LONGEST_HEADER))
    header = answer[start : end if line < 0 else line]
    if len(header) > _LONGEST_HEADER:
        raise ValueError("a frame has an endless first line")
    data = answer[line + 1 : end] if line >= 0 else b""
    how, inode, first, last, left, before, after, path = header.decode(errors="surrogateescape").split(" ", 7)
    return FileFrame(how, inode, int(first), int(last), int(left), before, after, path, data)
