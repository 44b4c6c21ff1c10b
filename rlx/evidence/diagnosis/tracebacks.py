"""The exceptions in a log: what was raised, where, and what only handed it on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rlx.evidence.diagnosis.excerpt import LogLine

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
# Lines of other processes may stand between Python's remark and the traceback that it is about.
_NEXT_LINES = 3
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|/lib64/python\d|^<|/_ray_pkg_|^python/ray/")


@dataclass(frozen=True, slots=True)
class Frame:
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
    """One exception, of Python or of C++. It stands at `line`, printed as `text`; what belongs to it begins at `begin`.

    `in_handling`: it was raised while the one before it was being handled.
    """

    line: int
    begin: int
    name: str
    message: str
    frames: tuple[Frame, ...]
    in_handling: bool
    text: str
    speaker: str

    @property
    def hands_on(self) -> bool:
        return _HANDS_ON.search(self.name) is not None

    @property
    def at(self) -> Frame | None:
        """The deepest frame that is the user's own, else the deepest there is."""
        own = [frame for frame in self.frames if frame.is_own] or self.frames
        return own[-1] if own else None

    def __str__(self) -> str:
        name = self.name.rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


@dataclass(slots=True)
class _Open:
    """The traceback that one speaker is in the middle of.

    `thrown`: the class of a C++ exception that nobody caught. `ignored`: the line that says that Python goes on.
    """

    begin: int = 0
    frames: list[Frame] = field(default_factory=list)
    in_handling: bool = False
    thrown: str = ""
    ignored: int | None = None

    def is_ignored(self) -> bool:
        """Tell whether it was raised where nobody could catch it, as in a destructor: that ends no program."""
        return self.ignored is not None and self.begin - self.ignored <= _NEXT_LINES


def is_frame(line: LogLine) -> bool:
    """The line that names file, line and function of a traceback's frame."""
    return _FRAME.match(line.text) is not None


def raised(lines: Iterable[LogLine]) -> Iterator[Raised]:
    """The exceptions by time, without those that Python ignored. Lines of several processes may be interleaved."""
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
    """Take in what stands before an exception's own line; false for any other line."""
    if line.text.startswith(_HEAD):
        block.begin, block.frames = line.number, []
    elif found := _FRAME.match(line.text):
        block.begin = block.begin or line.number
        block.frames.append(Frame(found[1], int(found[2]), found[3] or ""))
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
    """An exception's last line. Without a traceback it must call itself an error and say something."""
    found = _RAISED.match(text)
    if found is None:
        return None
    if _CALLED_ERROR.search(found[1]):
        return found if traced or found[3] else None
    return found if traced and found[3] and "." in found[1] else None
