"""verl's console log: metric lines, totals, the progress bar, restarts and noise lines, from bytes of any quality.

Sources: verl/utils/logger/aggregate_logger.py (`step:{N} - k:v - k:v`; `{v:.3f}` up to 0.4.1, pprint.pformat since
0.5.0, so `np.float64(0.5)` under numpy 2), trainer/ppo/ray_trainer.py and v1/trainer_base.py for the other lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.evidence import aqn_lines
from rlx.evidence.noise_lines import NoiseLines
from rlx.evidence.scan import LineScanner
from rlx.evidence.timeline import Timeline
from rlx.evidence.values import NoiseEvent, Progress, Totals

_STEP = b"step:"
_BAR = b"g Progress: "
# Of the total steps, the rows of the data sets (two wordings), and a loaded checkpoint.
_RARE = (b"ing steps: ", b"set size:", b"set len: ", b"lobal step to ")
NEEDLES = (_STEP, _BAR, *_RARE, *aqn_lines.NEEDLES)
"""A line of a console log without any of these says nothing here."""

# A file that was emptied while somebody wrote on at his place reads as zero bytes up to there; a copy from another host
# has \1 for them.
_HOLES = (b"\0" * 16, b"\1" * 16)
_ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
# No number has more digits. What stands before is checked apart: a look-behind would keep re from searching fast.
_STEP_HEAD = re.compile(r"step:\s?(\d{1,12})\s+-\s")
_PART_OF_A_NAME = re.compile(r"[\w/.-]")
_VALUE = re.compile(
    r"(?:np\.\w+\()?([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?))\)?s?(?=\s|$)",
    re.IGNORECASE,
)
_BAR_STATE = re.compile(r"Training Progress:[^|\n]{0,40}\|[^|\n]{0,300}\|\s*(\d{1,12})/(\d{1,12}) \[")
_TOTAL_STEPS = re.compile(r"Total training steps: (\d{1,12})")
_DATASET_ROWS = re.compile(r"train dataset size: (\d{1,12}), val dataset size: (\d{1,12})")
_DATASET_LENGTH = re.compile(r"(filter )?dataset len: (\d{1,12})")
_RESUMED_AT = re.compile(r"[Ss]etting global step to (\d{1,12})")


class ConsoleParser:
    """Feed it the log as it comes; every attribute is up to date after each call. No input raises."""

    def __init__(self, attempt: int = 1) -> None:
        self.timeline = Timeline("console", attempt)
        self.noise_lines = NoiseLines()
        self.has_hole = False
        self.progress: Progress | None = None
        self._total_steps: int | None = None
        self._rows: tuple[int, int] | None = None
        self._lengths: list[int] = []
        self._scanner = LineScanner(NEEDLES)

    @property
    def noise(self) -> list[NoiseEvent]:
        return self.noise_lines.events

    def feed(self, data: bytes) -> None:
        for line in self._scanner.feed(data):
            self._read(line)

    def finish(self) -> None:
        """The log will not grow: read its last line even though it has no end-of-line."""
        for line in self._scanner.finish():
            self._read(line)

    @property
    def totals(self) -> Totals:
        train, validation = self._rows or self._dataset_lengths()
        return Totals(self._total_steps, train, validation)

    def _dataset_lengths(self) -> tuple[int | None, int | None]:
        """Older trainers print one length a data set, the training set first."""
        return (self._lengths[0], self._lengths[1]) if len(self._lengths) == 2 else (None, None)

    def _read(self, raw: bytes) -> None:
        self.has_hole = self.has_hole or any(hole in raw for hole in _HOLES)
        line = _ANSI.sub(b"", raw).decode("utf-8", "replace")
        if _STEP in raw:
            for step, values in read_step_lines(line):
                self.timeline.add(step, values)
        if _BAR in raw:
            self._read_bar(line)
        if any(needle in raw for needle in aqn_lines.NEEDLES):
            self.noise_lines.read(line)
        if any(needle in raw for needle in _RARE):
            self._read_totals(line)

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


def read_step_lines(line: str) -> Iterator[tuple[int, dict[str, float]]]:
    """The metrics of each `step:N - k:v - …` in a line: several, where lines were glued together."""
    # `timing_s/step:87 - ` is a metric, not a head.
    heads = [
        head for head in _STEP_HEAD.finditer(line) if not _PART_OF_A_NAME.match(line[head.start() - 1 : head.start()])
    ]
    ends = [*(head.start() for head in heads), len(line)][1:]
    for head, end in zip(heads, ends, strict=True):
        body = line[head.end() : end].partition("Training Progress:")[0]
        if values := _pairs(body):
            yield int(head[1]), values


def _pairs(body: str) -> dict[str, float]:
    values = {}
    for item in body.split(" - "):
        key, colon, text = item.rpartition(":")
        value = _number(text) if colon else None
        if value is not None and (key := key.strip()) and " " not in key:
            values[key] = value
    return values


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        match = _VALUE.match(text.strip())
        return float(match[1]) if match else None
