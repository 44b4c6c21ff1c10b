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
_CALLED_ERROR = re.compile(r"(?:Error|Exception|Interrupt)$")
# What others raised, handed on by Ray or Hydra; and what the other ranks say when one of them is gone.
_HANDS_ON = re.compile(
    r"RayTaskError|RayActorError|Actor(?:Died|Unavailable)Error|WorkerCrashedError|InstantiationException"
)
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
    """One exception. It stands at `line`, printed as `text`; the traceback before it begins at `begin`.

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
    """The traceback that one speaker is in the middle of."""

    begin: int = 0
    frames: list[Frame] = field(default_factory=list)
    in_handling: bool = False


def is_frame(line: LogLine) -> bool:
    """The line that names file, line and function of a traceback's frame."""
    return _FRAME.match(line.text) is not None


def raised(lines: Iterable[LogLine]) -> Iterator[Raised]:
    """The exceptions by time. Lines of several processes may be interleaved."""
    speakers: dict[str, _Open] = {}
    for line in lines:
        block = speakers.setdefault(line.speaker, _Open())
        if line.text.startswith(_HEAD):
            block.begin, block.frames = line.number, []
        elif found := _FRAME.match(line.text):
            block.begin = block.begin or line.number
            block.frames.append(Frame(found[1], int(found[2]), found[3] or ""))
        elif line.text.startswith("During handling of the above exception"):
            block.in_handling = True
        elif found := _exception(line.text, traced=bool(block.frames)):
            yield Raised(
                line.number,
                block.begin or line.number,
                found[1],
                (found[3] or "").strip(),
                tuple(block.frames),
                block.in_handling,
                line.raw,
                line.speaker,
            )
            speakers[line.speaker] = _Open()


def _exception(text: str, *, traced: bool) -> re.Match[str] | None:
    """An exception's last line. Without a traceback it must call itself an error and say something."""
    found = _RAISED.match(text)
    if found is None:
        return None
    if _CALLED_ERROR.search(found[1]):
        return found if traced or found[3] else None
    return found if traced and found[3] and "." in found[1] else None
