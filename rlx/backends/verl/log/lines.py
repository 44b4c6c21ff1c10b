"""Read the lines of verl's console: metrics, totals, the progress bar, and a checkpoint that was loaded.

Sources: utils/logger/aggregate_logger.py (`step:{N} - k:v - k:v`; `{v:.3f}` up to 0.4.1, pprint.pformat since 0.5.0, so
`np.float64(0.5)` under numpy 2), trainer/ppo/ray_trainer.py and v1/trainer_base.py for the other lines. Faults:
reward_manager/limited.py, reward_manager/prime.py and reward_score/math_verify.py score an answer 0 where its reward
failed, and say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.evidence.log_grammar import DataLength, DataRows, LineForm, LineSays, Resumed, StepMetrics, TotalSteps
from rlx.evidence.reading.pairs import read_pairs
from rlx.evidence.run_evidence import FaultKind, LoggedFault, Progress

# No number has more digits. What stands before is checked apart: a look-behind would keep re from searching fast.
_STEP_HEAD = re.compile(r"step:\s?(\d{1,12})\s+-\s")
_PART_OF_A_NAME = re.compile(r"[\w/.-]")
# The DAPO recipe's trainer saves once more where its data ended, and logs that under the step that it did not take.
_ONLY_SAVED = {"timing/save_checkpoint"}
# What follows a metrics line without an end of line: a bar, or what another process said.
_GLUED = re.compile(r"Training Progress:|\(\w+ pid=\d")
_BAR_STATE = re.compile(r"Training Progress:[^|\n]{0,40}\|[^|\n]{0,300}\|\s*(\d{1,12})/(\d{1,12}) \[")
_TOTAL_STEPS = re.compile(r"Total training steps: (\d{1,12})")
_DATASET_ROWS = re.compile(r"train dataset size: (\d{1,12}), val dataset size: (\d{1,12})")
_DATASET_LENGTH = re.compile(r"(filter )?dataset len: (\d{1,12})")
_RESUMED_AT = re.compile(r"[Ss]etting global step to (\d{1,12})")

_REWARD_FAILED = re.compile(
    r"(?:[Ee]rror|[Ff]ailed|[Ee]xception)\b.{0,20}\b[Rr]eward computation\b|"
    r"\b[Rr]eward computation (?:failed|timed out|error)|[Ss]coring\b.{0,20}Setting all as 0|"
    r"Error in \w{1,40} compute_score: "
)
_NO_OPTIMIZER = re.compile(
    r"[Oo]ptimizer state(?: dict)?(?: is| was)? ?(?:missing|skipped|not (?:found|loaded|restored))\b|"
    r"\b(?:[Nn]o|[Mm]issing) optimizer state\b"
)
_FOLDED = re.compile(r"\[repeated (\d{1,9})x across cluster\]")
_PROCESS = re.compile(r"^\(\w+ pid=\d+[^)]{0,99}\) ")
_QUOTED = 160


def read_step_lines(line: str) -> Iterator[StepMetrics]:
    """The metrics of each `step:N - k:v - …` in a line: several, where lines were glued together."""
    # `timing_s/step:87 - ` is a metric, not a head.
    heads = [
        head for head in _STEP_HEAD.finditer(line) if not _PART_OF_A_NAME.match(line[head.start() - 1 : head.start()])
    ]
    ends = [*(head.start() for head in heads), len(line)][1:]
    for head, end in zip(heads, ends, strict=True):
        body = _GLUED.split(line[head.end() : end], maxsplit=1)[0]
        values = read_pairs(body, " - ")
        if values and values.keys() != _ONLY_SAVED:
            yield StepMetrics(int(head[1]), values)


def _read_bar(line: str) -> Iterator[Progress]:
    return (Progress(int(match[1]), int(match[2])) for match in _BAR_STATE.finditer(line))


def _read_totals(line: str) -> Iterator[LineSays]:
    """The total steps, the rows of the data sets in two wordings, and a loaded checkpoint."""
    if match := _TOTAL_STEPS.search(line):
        yield TotalSteps(int(match[1]))
    if match := _DATASET_ROWS.search(line):
        yield DataRows(int(match[1]), int(match[2]))
    if match := _DATASET_LENGTH.search(line):
        yield DataLength(int(match[2]), bool(match[1]))
    if match := _RESUMED_AT.search(line):
        yield Resumed(int(match[1]))


def _read_faults(line: str) -> Iterator[LoggedFault]:
    """Read what failed while the training went on. Ray prints one line in place of several, and says of how many."""
    for kind, pattern in ((FaultKind.REWARD, _REWARD_FAILED), (FaultKind.OPTIMIZER, _NO_OPTIMIZER)):
        if pattern.search(line):
            folded = _FOLDED.search(line)
            yield LoggedFault(kind, int(folded[1]) if folded else 1, _PROCESS.sub("", line).strip()[:_QUOTED])


LINES = (
    LineForm((b"step:",), read_step_lines),
    LineForm((b"Training Progress: ",), _read_bar),
    LineForm((b"Total training steps: ", b"dataset ", b"etting global step to "), _read_totals),
    LineForm((b"eward computation", b"Setting all as 0", b"compute_score: ", b"ptimizer state"), _read_faults),
)
