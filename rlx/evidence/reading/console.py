"""Read a console log of any back-end, from bytes of any quality, by the grammars of all back-ends at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from rlx.evidence.grammars import Rows, grammars, rows, rules
from rlx.evidence.log_grammar import DataLength, DataRows, LineSays, Resumed, StepMetrics, TotalSteps
from rlx.evidence.reading import aqn_lines
from rlx.evidence.reading.noise_lines import NoiseLines
from rlx.evidence.reading.scan import LineScanner
from rlx.evidence.reading.timeline import Timeline
from rlx.evidence.run_evidence import FaultKind, LoggedFault, NoiseEvent, Progress, Totals

RULES = "console 4"
"""To be changed with whatever makes this parser read the same bytes otherwise; the grammars have rules of their own."""

# A file that was emptied while somebody wrote on at his place reads as zero bytes up to there; a copy from another host
# has \1 for them.
_HOLES = (b"\0" * 16, b"\1" * 16)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")

Reader = tuple[str, Callable[[str], Iterable[LineSays]]]
"""What is unproven about it, in words, and what it reads from a line."""


@dataclass(frozen=True, slots=True)
class _Readers:
    """The readers of lines, by the needle that a line holds. No line without any of `needles` says anything."""

    needles: tuple[bytes, ...]
    by_needle: Mapping[bytes, tuple[Reader, ...]]
    noise_needles: frozenset[bytes]


def needles() -> tuple[bytes, ...]:
    """A line of a console log without any of these says nothing here."""
    return _readers(rows()).needles


@cache
def _readers(rows: Rows) -> _Readers:
    by_needle: dict[bytes, tuple[Reader, ...]] = {}
    for grammar in grammars():
        for form in grammar.lines:
            for needle in form.needles:
                by_needle[needle] = (*by_needle.get(needle, ()), (grammar.unproven, form.read))
    noise = dict.fromkeys((*(each for grammar in grammars() for each in grammar.noise_needles), *aqn_lines.NEEDLES))
    return _Readers(tuple(dict.fromkeys((*by_needle, *noise))), by_needle, frozenset(noise))


def step_metrics(line: bytes) -> list[StepMetrics]:
    """Read the metrics that one line of a console log gives, whatever the back-end; none of any other line."""
    readers = _readers(rows())
    held = [needle for needle in readers.needles if needle in line]
    text = _ANSI.sub(b"", line).decode("utf-8", "replace")
    found = dict.fromkeys(reader for needle in held for reader in readers.by_needle.get(needle, ()))
    return [said for _, read in found for said in read(text) if isinstance(said, StepMetrics)]


class ConsoleParser:
    """Feed it the log as it comes; every attribute is up to date after each call. No input raises.

    `unproven`: what the log was read by, in words, where no real log has confirmed that yet.
    """

    def __init__(self, attempt: int = 1) -> None:
        self.rules = f"{RULES} {rules()} {attempt}"
        self.timeline = Timeline("console", attempt)
        self.noise_lines = NoiseLines()
        self.has_hole = False
        self.progress: Progress | None = None
        self.unproven = ""
        self._total_steps: int | None = None
        self._rows: tuple[int, int] | None = None
        self._lengths: list[int] = []
        self._faults: dict[str, LoggedFault] = {}
        self._readers = _readers(rows())
        self._scanner = LineScanner(self._readers.needles)

    @property
    def noise(self) -> list[NoiseEvent]:
        return self.noise_lines.events

    def feed(self, data: bytes) -> None:
        for line, needles in self._scanner.feed(data):
            self._read(line, needles)

    def finish(self) -> None:
        """The log will not grow: read its last line even though it has no end-of-line."""
        for line, needles in self._scanner.finish():
            self._read(line, needles)

    @property
    def pending(self) -> int:
        return self._scanner.pending

    def state(self) -> dict[str, Any]:
        return {
            "timeline": self.timeline.state(),
            "noise": self.noise_lines.state(),
            "has_hole": self.has_hole,
            "progress": self.progress,
            "unproven": self.unproven,
            "faults": list(self._faults.values()),
            "totals": [self._total_steps, self._rows, self._lengths],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.timeline.restore(state["timeline"])
        self.noise_lines.restore(state["noise"])
        self.has_hole = state["has_hole"]
        self.progress = Progress(*state["progress"]) if state["progress"] else None
        self.unproven = state["unproven"]
        self._total_steps, rows, self._lengths = state["totals"]
        self._rows = (rows[0], rows[1]) if rows else None
        self._faults = {kind: LoggedFault(FaultKind(kind), number, first) for kind, number, first in state["faults"]}

    @property
    def faults(self) -> tuple[LoggedFault, ...]:
        """The faults that the log names, each kind once."""
        return tuple(self._faults.values())

    @property
    def totals(self) -> Totals:
        train, validation = self._rows or self._dataset_lengths()
        return Totals(self._total_steps, train, validation)

    def _dataset_lengths(self) -> tuple[int | None, int | None]:
        """Read lengths of data sets. Older trainers print one line each, the training set first."""
        return (self._lengths[0], self._lengths[1]) if len(self._lengths) == 2 else (None, None)

    def _read(self, raw: bytes, needles: tuple[bytes, ...]) -> None:
        self.has_hole = self.has_hole or any(hole in raw for hole in _HOLES)
        line = _ANSI.sub(b"", raw).decode("utf-8", "replace")
        by_needle = self._readers.by_needle
        for unproven, read in dict.fromkeys(reader for needle in needles for reader in by_needle.get(needle, ())):
            for said in read(line):
                self._take(said)
                self.unproven = unproven or self.unproven
        if not self._readers.noise_needles.isdisjoint(needles):
            self.noise_lines.read(line, self.timeline.last_step)

    def _take(self, said: LineSays) -> None:
        if isinstance(said, StepMetrics):
            self.timeline.add(said.step, said.values)
        elif isinstance(said, Progress):
            self.progress = said
        elif isinstance(said, TotalSteps):
            self._total_steps = said.steps
        elif isinstance(said, DataRows):
            self._rows = said.training, said.validation
        elif isinstance(said, LoggedFault):
            self._faults[said.kind] = joined(self._faults.get(said.kind), said)
        elif isinstance(said, DataLength):
            self._lengths = [*(self._lengths[:-1] if said.filtered else self._lengths[:2]), said.rows]
        elif isinstance(said, Resumed):
            self.timeline.resume(said.step)
            self.noise_lines.forget_after(said.step)


def joined(known: LoggedFault | None, later: LoggedFault) -> LoggedFault:
    """Add the times of a fault of one kind; the line that came first is kept."""
    return known._replace(number=known.number + later.number) if known else later
