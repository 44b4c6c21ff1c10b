"""Read the excerpt of a log that payload/diagnose.sh makes: lines without colours and speakers, and exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

# CSI and OSC sequences of ECMA-48. What else may be dangerous to a terminal is for those who print.
_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
_RECORD = re.compile(rb"(\d{1,15})([:=+-])(.*)", re.DOTALL)
# Ray's actors, vLLM's engines and workers, torchrun's ranks, and the time stamps of what wraps a launch.
_SPEAKER = re.compile(r"\s*(\((?:\w[\w .<>=-]*)?\s?pid=[^)]{1,60}\)|\[rank\d+\]:|\[default\d+\]:)")
_STAMP = re.compile(
    r"\s?(?:\[\d{4}-\d\d-\d\d[ T][\d:,.]+\]|(?:ERROR|WARNING|INFO|CRITICAL) \d\d-\d\d [\d:]+ \[?[\w./-]{1,80}:\d+\])"
)
_MOST_DIGITS = 15
_CONTEXT, _LAST, _MORE = b"-", b"=", b"+"
_HEAD = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s*File "([^"]{1,500})", line (\d{1,9})(?:, in (\S{1,200}))?')
_NAME = r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}"
_RAISED = re.compile(rf"({_NAME})(?:\((\w+)\))?(?::\s?(.*))?$", re.DOTALL)
_THROWN = re.compile(r"\s*terminate called after throwing an instance of '([^']{1,200})'")
_WHAT = re.compile(r"\s*what\(\):\s*(.*)", re.DOTALL)
_CALLED_ERROR = re.compile(r"(?:Error|Exception|Interrupt)$")
# What others raised, handed on by Ray, Hydra or torchrun; and what the other ranks say when one of them is gone.
_HANDS_ON = re.compile(
    r"RayTaskError|RayActorError|Actor(?:Died|Unavailable)Error|WorkerCrashedError|InstantiationException|ChildFailedError"
)
# Lines of other processes may be between Python's remark and its traceback.
_NEXT_LINES = 3
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|/lib64/python\d|^<|/_ray_pkg_|^python/ray/")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log, or a part of it that a carriage return separates.

    `number` counts from 1, as an editor does, where no line is longer than 1 MB. `raw`: as printed; `text`: without
    speaker and time. `matched`: it may contain a needle. `is_last`: it is here only as one of the last lines, so it is
    counted in `Excerpt.more` already, if it has one.
    """

    number: int
    raw: str
    text: str
    speaker: str
    matched: bool = True
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`lines` by number; `last`: the last lines of the log; `size` in bytes, None where there is no log.

    `more`: by the number of a line, how many lines like it were left out. `lacks`: a program the host would need.
    """

    lines: tuple[LogLine, ...] = ()
    more: Mapping[int, int] = field(default_factory=dict)
    last: tuple[LogLine, ...] = ()
    size: int | None = None
    lacks: str = ""


def read_excerpt(records: Iterable[bytes]) -> Excerpt:
    """Read the output of diagnose.sh, without what is not a record: a log or a host may contain anything."""
    lines: list[LogLine] = []
    last: list[LogLine] = []
    more: dict[int, int] = {}
    size, lacks = None, ""
    for record in records:
        if size is None and record.startswith(b"size "):
            size = _number(record[5:])
        elif size is None and record.startswith(b"lacks "):
            lacks = record[6:].decode("utf-8", "replace")
        elif (found := _RECORD.match(record)) and found[2] == _MORE:
            more[int(found[1])] = _number(found[3]) or 0
        elif found:
            into = last if found[2] == _LAST else lines
            into += _parts(int(found[1]), found[3], matched=found[2] != _CONTEXT)
    known = {line.number for line in lines if line.matched}
    lines += [replace(line, is_last=True) for line in last if line.number not in known]
    return Excerpt(tuple(sorted(lines, key=lambda line: line.number)), more, tuple(last), size, lacks)


def _number(digits: bytes) -> int | None:
    """Parse a number that this host may have counted; Python refuses numbers of thousands of digits."""
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None


def clean(text: str) -> tuple[str, str]:
    """Split a line into its speaker and its text."""
    speaker, text = "", text.rstrip()
    while found := _SPEAKER.match(text):
        speaker += found[1]
        text = text[found.end() :].removeprefix(" ")
    while found := _STAMP.match(text):
        text = text[found.end() :].removeprefix(" ")
    return speaker, text


def log_line(number: int, raw: str, *, matched: bool = True) -> LogLine:
    speaker, text = clean(raw)
    return LogLine(number, raw, text, speaker, matched)


def _parts(number: int, data: bytes, *, matched: bool) -> Iterator[LogLine]:
    for part in _COLOURS.sub("", data.decode("utf-8", "replace")).split("\r"):
        if part.strip():
            yield log_line(number, part.rstrip(), matched=matched)


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    file: str
    line: int
    function: str

    @property
    def is_own(self) -> bool:
        """Tell whether it is in the user's code: in no installed package and no part of Python."""
        return self.file.endswith(".py") and _INSTALLED.search(self.file) is None

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function or '?'}"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception of Python or C++, printed as `text` at `line`; what belongs to it begins at `begin`.

    `in_handling`: it was raised while the one before it was being handled.
    """

    line: int
    begin: int
    name: str
    message: str
    frames: tuple[TracebackFrame, ...]
    in_handling: bool
    text: str
    speaker: str

    @property
    def hands_on(self) -> bool:
        return _HANDS_ON.search(self.name) is not None

    @property
    def at(self) -> TracebackFrame | None:
        """The deepest frame in the user's own code, else the deepest frame."""
        own = [frame for frame in self.frames if frame.is_own] or self.frames
        return own[-1] if own else None

    def __str__(self) -> str:
        name = self.name.rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


@dataclass(slots=True)
class _Open:
    """The traceback of one speaker that is not complete yet.

    `thrown`: the class of an uncaught C++ exception. `ignored`: the line that says that Python continues.
    """

    begin: int = 0
    frames: list[TracebackFrame] = field(default_factory=list)
    in_handling: bool = False
    thrown: str = ""
    ignored: int | None = None

    def is_ignored(self) -> bool:
        """Tell whether it was raised where it cannot be caught, as in a destructor: that ends no program."""
        return self.ignored is not None and self.begin - self.ignored <= _NEXT_LINES


def is_frame(line: LogLine) -> bool:
    """Tell whether a line names file, line and function of a traceback's frame."""
    return _FRAME.match(line.text) is not None


def raised(lines: Iterable[LogLine]) -> Iterator[Raised]:
    """Yield the exceptions by time, without those that Python ignored. Lines of processes may be interleaved."""
    speakers: dict[str, _Open] = {}
    for line in lines:
        block = speakers.setdefault(line.speaker, _Open())
        if _belongs(block, line):
            continue
        if found := _exception(line.text, traced=bool(block.frames)):
            if not block.is_ignored():
                yield _raised(line, block, found[1], found[3] or "")
            speakers[line.speaker] = _Open()
        elif block.thrown and (found := _WHAT.match(line.text)):
            yield _raised(line, block, block.thrown, found[1])
            speakers[line.speaker] = _Open()


def _belongs(block: _Open, line: LogLine) -> bool:
    """Add what precedes an exception's own line to its block; return False for any other line."""
    if line.text.startswith(_HEAD):
        block.begin, block.frames = line.number, []
    elif found := _FRAME.match(line.text):
        block.begin = block.begin or line.number
        block.frames.append(TracebackFrame(found[1], int(found[2]), found[3] or ""))
    elif line.text.startswith("During handling of the above exception"):
        block.in_handling = True
    elif line.text.startswith("Exception ignored in"):
        block.ignored = line.number
    elif found := _THROWN.match(line.text):
        block.begin, block.thrown = line.number, found[1]
    else:
        return False
    return True


def _raised(line: LogLine, block: _Open, name: str, message: str) -> Raised:
    begin, frames = block.begin or line.number, tuple(block.frames)
    return Raised(line.number, begin, name, message.strip(), frames, block.in_handling, line.raw, line.speaker)


def _exception(text: str, *, traced: bool) -> re.Match[str] | None:
    """Match an exception's last line. Without a traceback it must be named an error and have a message."""
    found = _RAISED.match(text)
    if found is None:
        return None
    if _CALLED_ERROR.search(found[1]):
        return found if traced or found[3] else None
    return found if traced and found[3] and "." in found[1] else None
