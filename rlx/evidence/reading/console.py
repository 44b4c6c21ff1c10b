"""The console log: metric lines, totals, the progress bar, restarts and noise lines, from bytes of any quality.

Sources for verl: utils/logger/aggregate_logger.py (`step:{N} - k:v - k:v`; `{v:.3f}` up to 0.4.1, pprint.pformat since
0.5.0, so `np.float64(0.5)` under numpy 2), trainer/ppo/ray_trainer.py and v1/trainer_base.py for the other lines.
For MindSpeed-RL: mindspeed_rl/utils/loggers.py (`iteration: {i} / {n} | key : value | …`), read from its source only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlx.evidence.reading import aqn_lines
from rlx.evidence.reading.noise_lines import NoiseLines
from rlx.evidence.reading.scan import LineScanner
from rlx.evidence.reading.timeline import Timeline
from rlx.evidence.run_evidence import NoiseEvent, Progress, Totals

_STEP = b"step:"
_ITERATION = b"iteration: "
_BAR = b"Training Progress: "
# Of the total steps, the rows of the data sets (two wordings), and a loaded checkpoint.
_RARE = (b"Total training steps: ", b"dataset ", b"etting global step to ")
NEEDLES = (_STEP, _ITERATION, _BAR, *aqn_lines.NEEDLES, *_RARE)
"""A line of a console log without any of these says nothing here."""
RULES = "console 2"
"""To be changed with whatever makes this parser read the same bytes otherwise."""

UNPROVEN = "metrics from iteration lines of MindSpeed-RL, a grammar read from its source: no real log was seen yet"

# A file that was emptied while somebody wrote on at his place reads as zero bytes up to there; a copy from another host
# has \1 for them.
_HOLES = (b"\0" * 16, b"\1" * 16)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
# No number has more digits. What stands before is checked apart: a look-behind would keep re from searching fast.
_STEP_HEAD = re.compile(r"step:\s?(\d{1,12})\s+-\s")
_ITERATION_HEAD = re.compile(r"iteration:\s+(\d{1,12})\s*/\s*(\d{1,12})\s*\|\s")
_PART_OF_A_NAME = re.compile(r"[\w/.-]")
_VALUE = re.compile(
    r"(?:np\.\w+\()?([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?))\)?s?(?=\s|$)",
    re.IGNORECASE,
)
_NUMPY = "np.float64(", ")"
# What follows a metrics line without an end of line: a bar, or what another process said.
_GLUED = re.compile(r"Training Progress:|\(\w+ pid=\d")
_BAR_STATE = re.compile(r"Training Progress:[^|\n]{0,40}\|[^|\n]{0,300}\|\s*(\d{1,12})/(\d{1,12}) \[")
_TOTAL_STEPS = re.compile(r"Total training steps: (\d{1,12})")
_DATASET_ROWS = re.compile(r"train dataset size: (\d{1,12}), val dataset size: (\d{1,12})")
_DATASET_LENGTH = re.compile(r"(filter )?dataset len: (\d{1,12})")
_RESUMED_AT = re.compile(r"[Ss]etting global step to (\d{1,12})")


class ConsoleParser:
    """Feed it the log as it comes; every attribute is up to date after each call. No input raises."""

    def __init__(self, attempt: int = 1) -> None:
        self.rules = f"{RULES} {attempt}"
        self.timeline = Timeline("console", attempt)
        self.noise_lines = NoiseLines()
        self.has_hole = False
        self.progress: Progress | None = None
        self.unproven = ""
        self._total_steps: int | None = None
        self._rows: tuple[int, int] | None = None
        self._lengths: list[int] = []
        self._scanner = LineScanner(NEEDLES)

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
        for read in dict.fromkeys(_READERS[needle] for needle in needles):
            read(self, line)

    def _read_steps(self, line: str) -> None:
        for step, values in read_step_lines(line):
            self.timeline.add(step, values)

    def _read_iteration(self, line: str) -> None:
        if match := _ITERATION_HEAD.search(line):
            step, total = int(match[1]), int(match[2])
            self.progress, self.unproven = Progress(step, total), UNPROVEN
            self.timeline.add(step, _pairs(line[match.end() :], " | "))

    def _read_noise(self, line: str) -> None:
        self.noise_lines.read(line)

    def _read_bar(self, line: str) -> None:
        for match in _BAR_STATE.finditer(line):
            self.progress = Progress(int(match[1]), int(match[2]))

    def _read_totals(self, line: str) -> None:
        if match := _TOTAL_STEPS.search(line):
            self._total_steps = int(match[1])
        if match := _DATASET_ROWS.search(line):
            self._rows = int(match[1]), int(match[2])
        if match := _DATASET_LENGTH.search(line):
            # A filtered length replaces the length of the same data set.
            self._lengths = [*(self._lengths[:-1] if match[1] else self._lengths[:2]), int(match[2])]
        if match := _RESUMED_AT.search(line):
            self._resume(int(match[1]))

    def _resume(self, step: int) -> None:
        self.timeline.resume(step)
        self.noise_lines.forget_after(step)


_READERS = {
    _STEP: ConsoleParser._read_steps,
    _ITERATION: ConsoleParser._read_iteration,
    _BAR: ConsoleParser._read_bar,
    **dict.fromkeys(aqn_lines.NEEDLES, ConsoleParser._read_noise),
    **dict.fromkeys(_RARE, ConsoleParser._read_totals),
}


def read_step_lines(line: str) -> Iterator[tuple[int, dict[str, float]]]:
    """The metrics of each `step:N - k:v - …` in a line: several, where lines were glued together."""
    # `timing_s/step:87 - ` is a metric, not a head.
    heads = [
        head for head in _STEP_HEAD.finditer(line) if not _PART_OF_A_NAME.match(line[head.start() - 1 : head.start()])
    ]
    ends = [*(head.start() for head in heads), len(line)][1:]
    for head, end in zip(heads, ends, strict=True):
        body = _GLUED.split(line[head.end() : end], maxsplit=1)[0]
        if values := _pairs(body, " - "):
            yield int(head[1]), values


def _pairs(body: str, separator: str) -> dict[str, float]:
    values = {}
    for item in body.split(separator):
        key, _, text = item.rpartition(":")
        if text.endswith(_NUMPY[1]) and text.startswith(_NUMPY[0]):
            # Most numbers of newer trainers: raising and matching would take twice the time.
            text = text[len(_NUMPY[0]) : -1]
        try:
            value = float(text)
        except ValueError:
            if (found := _VALUE.match(text.strip())) is None:
                continue
            value = float(found[1])
        if (key := key.strip()) and " " not in key:
            values[key] = value
    return values
