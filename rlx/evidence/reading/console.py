"""Read console logs of any back-end, from bytes of any quality, with the grammars of all back-ends at once.

Lines about noise state a part each, and are joined to events in their order. Only an `Applied noise to N` line is
evidence. It does not contain its step and sigma: the payload's events do, or another line of a fork (`noise` of its
back-end's log grammar). Lines that announce, configure or skip noise prove nothing: they are also printed at sigma 0,
with no layer matched, and in runs without any noise.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from typing import Any

from rlx.evidence.grammars import Rows, grammars, rows, rules
from rlx.evidence.log_grammar import (
    NOISY,
    Context,
    DataLength,
    DataRows,
    LineSays,
    Logged,
    LoggedInterval,
    NextMetrics,
    NoiseSays,
    Resumed,
    StepMetrics,
    TotalSteps,
    Weights,
)
from rlx.evidence.reading.scan import LineScanner
from rlx.evidence.reading.timeline import Timeline
from rlx.evidence.run_evidence import Announcement, FaultKind, LoggedFault, NoiseEvent, Progress, RunTotals

RULES = "console 5"
"""To be changed whenever this parser reads the same bytes differently; the grammars have their own rules."""

# A file that was emptied while a process wrote on at its own position reads as zero bytes up to there; a copy from
# another host has \1 for them.
_HOLES = (b"\0" * 16, b"\1" * 16)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")

Reader = tuple[str, Callable[[str], Iterable[LineSays]]]
"""What is unproven about it, in words, and what it reads from a line."""
_SPEAKER = re.compile(r"\s*\(\w+ (pid=\d+(?:, ip=[^)\s]+)?)\)\s*")
NEEDLES = (b"AQN",)
_APPLIED = re.compile(r"(?:\[AQN\] )?Applied noise to (\d{1,9}) ([\w+/,-]{1,60}) layers \(skipped ")
_KNOWN = re.compile(r"\[AQN|Applied noise")
_ANY_SIGMA = re.compile(r"\bAQN\b[^'\"`]{0,200}\bsigma=([\d.eE+-]{1,30})")
_FOLDED = re.compile(r"\[repeated \d+x")
# A line begins there, or after what Ray, a logger or a progress bar put before it. A line that quotes or describes
# another line has a word or a quotation mark there.
_BEGIN = re.compile(r"^\s*$|[\])]\s*$|(?:DEBUG|INFO|WARNING)\b[^'\"`]{0,200}[:\-]\s*$")


@dataclass(frozen=True, slots=True)
class _Readers:
    """The readers of lines, by the text (needle) that a line contains. A line without any of `needles` is not read."""

    needles: tuple[bytes, ...]
    by_needle: Mapping[bytes, tuple[Reader, ...]]
    noise_needles: frozenset[bytes]


def needles() -> tuple[bytes, ...]:
    """List the texts of which a line of a console log must contain at least one to be read."""
    return _readers(rows()).needles


@cache
def _readers(rows: Rows) -> _Readers:
    by_needle: dict[bytes, tuple[Reader, ...]] = {}
    for grammar in grammars():
        for form in grammar.lines:
            for needle in form.needles:
                by_needle[needle] = (*by_needle.get(needle, ()), (grammar.unproven, form.read))
    noise = dict.fromkeys((*(each for grammar in grammars() for each in grammar.noise_needles), *NEEDLES))
    return _Readers(tuple(dict.fromkeys((*by_needle, *noise))), by_needle, frozenset(noise))


def step_metrics(line: bytes) -> list[StepMetrics]:
    """Read the metrics that one line of a console log gives, whatever the back-end; none of any other line."""
    readers = _readers(rows())
    held = [needle for needle in readers.needles if needle in line]
    text = _ANSI.sub(b"", line).decode("utf-8", "replace")
    found = dict.fromkeys(reader for needle in held for reader in readers.by_needle.get(needle, ()))
    return [said for _, read in found for said in read(text) if isinstance(said, StepMetrics)]


class ConsoleParser:
    """Parses a console log in pieces; every attribute is up to date after each call. No input raises.

    `unproven`: in words, the grammar that the log was read by, where no real log has confirmed it yet.
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
        self._ordered = OrderedSteps()
        self._readers = _readers(rows())
        self._scanner = LineScanner(self._readers.needles)

    @property
    def noise(self) -> list[NoiseEvent]:
        return self.noise_lines.events

    def feed(self, data: bytes) -> None:
        for line, needles in self._scanner.feed(data):
            self._read(line, needles)

    def finish(self) -> None:
        """Read the last line although it has no end-of-line, because the log will not grow."""
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
            "ordered": self._ordered.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.timeline.restore(state["timeline"])
        self.noise_lines.restore(state["noise"])
        self.has_hole = state["has_hole"]
        self.progress = Progress(*state["progress"]) if state["progress"] else None
        self.unproven = state["unproven"]
        self._total_steps, rows, self._lengths = state["totals"]
        self._rows = (rows[0], rows[1]) if rows else None
        self._ordered.restore(state["ordered"])
        self._faults = {kind: LoggedFault(FaultKind(kind), number, first) for kind, number, first in state["faults"]}

    @property
    def faults(self) -> tuple[LoggedFault, ...]:
        """The faults that the log names, each kind once."""
        return tuple(self._faults.values())

    @property
    def totals(self) -> RunTotals:
        # Older trainers print a line for each data set, the training set first.
        lengths = (self._lengths[0], self._lengths[1]) if len(self._lengths) == 2 else (None, None)
        train, validation = self._rows or lengths
        return RunTotals(self._total_steps, train, validation, self._ordered.every)

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
        elif isinstance(said, LoggedInterval):
            self._ordered.begin(said)
        elif isinstance(said, NextMetrics):
            self._take_next(said)
        elif isinstance(said, DataLength):
            self._lengths = [*(self._lengths[:-1] if said.filtered else self._lengths[:2]), said.rows]
        elif isinstance(said, Resumed):
            self.timeline.resume(said.step)
            self._ordered.resume(said.step)
            self.noise_lines.forget_after(said.step)

    def _take_next(self, said: NextMetrics) -> None:
        step = self._ordered.step_of(said.of, self._total_steps)
        if step is not None:
            self.timeline.add(step, said.values)
        if said.of is Logged.END and self._total_steps is None:
            # A training by epochs names its number of steps nowhere else.
            self._total_steps = step


class OrderedSteps:
    """Counts the steps of lines that name none, by the interval that the trainer's configuration printed."""

    def __init__(self) -> None:
        self._interval = LoggedInterval()
        self._last = 0
        self._lines = self._validations = 0

    @property
    def every(self) -> int | None:
        """The interval of the training's lines where it is longer than a step."""
        return self._interval.training if (self._interval.training or 1) > 1 else None

    def begin(self, said: LoggedInterval) -> None:
        """Add what one line of the configuration says. After metrics, it is another training's: count anew."""
        if self._lines or self._validations:
            self._interval, self._last, self._lines, self._validations = LoggedInterval(), 0, 0, 0
        self._interval = self._interval._replace(
            **{n: value for n, value in said._asdict().items() if value is not None}
        )

    def resume(self, step: int) -> None:
        self._last = step

    def step_of(self, of: Logged, total: int | None) -> int | None:
        """Return the step of the next line of that kind; None where the interval is not known."""
        interval, last = self._interval, self._last
        if interval.training is None:
            return None
        if of is Logged.TRAINING:
            is_first = interval.with_first and not self._lines and not last
            self._last = 1 if is_first else last - last % interval.training + interval.training
            self._lines += 1
        elif of is Logged.VALIDATION:
            self._validations += 1
            number = self._validations - bool(interval.before)
            self._last = max(last, min(number * (interval.validations or interval.training), total or sys.maxsize))
        elif total and last + interval.training > total:
            # Some steps of the last interval are not logged.
            self._last = total
        return self._last

    def state(self) -> list[Any]:
        """Return all that it knows, as JSON."""
        return [list(self._interval), self._last, self._lines, self._validations]

    def restore(self, state: list[Any]) -> None:
        interval, self._last, self._lines, self._validations = state
        self._interval = LoggedInterval(*interval)


def joined(known: LoggedFault | None, later: LoggedFault) -> LoggedFault:
    """Add the counts of a fault of one kind, and keep its first line."""
    return known._replace(number=known.number + later.number) if known else later


class NoiseLines:
    """Joins the lines that contain a needle to `events` and `announced`, which are up to date after each line."""

    def __init__(self) -> None:
        self.events: list[NoiseEvent] = []
        self.announced: dict[Announcement, None] = {}  # in order, each once: every worker says it
        self._context: dict[str, Context] = {}
        self._weights: Weights | None = None

    def read(self, line: str, follows: int) -> None:
        """Read a line that follows the line of step `follows`."""
        said = read_aqn_line(line)
        if isinstance(said, Context):
            self._context[_speaker(line)] = said
        elif isinstance(said, Announcement):
            self.announced[said] = None
        elif isinstance(said, Weights):
            self._weights = said
        elif said is not None:
            self.events.append(self._complete(said, self._context.get(_speaker(line)), follows))

    def forget_after(self, step: int) -> None:
        """Drop the events after this step, from which training continues: noise for the next step is synced again."""
        self.events = [event for event in self.events if event.step is None or event.step <= step]

    def state(self) -> dict[str, Any]:
        """Return all that it knows, as JSON."""
        return {
            "events": [astuple(event) for event in self.events],
            "announced": list(self.announced),
            "context": self._context,
            "weights": self._weights,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.events = [NoiseEvent(*values) for values in state["events"]]
        self.announced = dict.fromkeys(Announcement(*values) for values in state["announced"])
        self._context = {speaker: Context(*values) for speaker, values in state["context"].items()}
        self._weights = Weights(*state["weights"]) if state["weights"] else None

    def _complete(self, event: NoiseEvent, context: Context | None, follows: int) -> NoiseEvent:
        if context:
            per_layer = event.per_layer or context.per_layer
            event = replace(event, step=context.step, sigma=context.sigma, per_layer=per_layer)
        elif event.step is None:
            event = replace(event, follows=follows)
        # Every worker logs its weights, only one logs its noise, so it does not matter whose line came.
        weights, self._weights = self._weights, None
        if weights is None:
            return event
        partly = weights.layers is not None and weights.layers < event.layers
        return replace(event, found=NOISY if partly else weights.found)


def _speaker(line: str) -> str:
    match = _SPEAKER.match(line)
    return match[1] if match else ""


def read_aqn_line(line: str) -> NoiseSays | None:
    """Read what a line says about noise, by the grammars of all back-ends' forks first; None: nothing."""
    said = (grammar.noise(line) for grammar in grammars())
    return next((each for each in said if each is not None), None) or read_applied(line) or _unknown(line)


def read_applied(line: str) -> NoiseEvent | None:
    """Read `[AQN] Applied noise to 57 RMSNorm layers (skipped 0 excluded layers)`."""
    if (match := at_begin(_APPLIED, line)) is None:
        return None
    said = applied(int(match[1]), "RMSNorm" if match[2].lower() == "rmsnorm" else match[2])
    return replace(said, folded=True) if _FOLDED.search(line, match.end()) else said


def applied(layers: int, kind: str, *, per_layer: bool = False) -> NoiseEvent:
    """Return noise on so many layers, at a step and with a sigma that the line does not state."""
    return NoiseEvent(step=None, sigma=math.nan, layers=layers, kind=kind, per_layer=per_layer)


def _unknown(line: str) -> Announcement | None:
    """Notice noise in unknown words, which is not evidence of noise, but not of its absence either."""
    match = None if _KNOWN.search(line) else _ANY_SIGMA.search(line)
    return Announcement(None, sigma) if match and (sigma := read_sigma(match[1])) else None


def at_begin(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Return the match, if the line begins with it."""
    match = pattern.search(line)
    return match if match and _BEGIN.search(line[max(0, match.start() - 300) : match.start()]) else None


def read_sigma(printed: str) -> float | None:
    """Return the number; None if the printed text is not one."""
    try:
        return float(printed)
    except ValueError:
        return None
