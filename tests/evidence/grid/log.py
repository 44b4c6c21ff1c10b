"""Edits of the console log: totals, lines about noise, and values that it prints beside the metrics file."""

from __future__ import annotations

import math
import re

from rlx.model import Link
from tests.evidence.edits import GAP, GRADIENT, LOSS, REJECTED, REJECTED_TOKENS
from tests.evidence.grid.cases import Source, caught, honest, unseen
from tests.evidence.grid.metrics import ACCURACY
from tests.evidence.grid.run_pair import RunPair

LOG = Source.LOG
_TOTAL = re.compile(r"Total training steps: 20\b")
_ADDED = re.compile(r"^.*\[AQN\] Applied noise to 5 .*\n", re.MULTILINE)


# asked


@caught(LOG, Link.ASKED, "incomplete", "RLX706", twin="total-said-twice")
def another_total_of_steps(pair: RunPair) -> None:
    """Over 25 steps the schedule of the plan would have other stages."""
    pair.aqn.log = _TOTAL.sub("Total training steps: 25", pair.aqn.log)


@honest(LOG, Link.ASKED)
def total_said_twice(pair: RunPair) -> None:
    line = next(line for line in pair.aqn.log.splitlines(keepends=True) if _TOTAL.search(line))
    pair.aqn.log = pair.aqn.log.replace(line, line + line)


# reached


@unseen(
    LOG,
    Link.REACHED,
    "the payload prints each line beside a record that says more, and Ray folds or loses lines: where there are "
    "records, the lines of the log count for nothing",
)
def lines_that_say_no_layer(pair: RunPair) -> None:
    pair.aqn.log = pair.aqn.log.replace("Applied noise to 5 ", "Applied noise to 0 ")


@honest(LOG, Link.REACHED)
def lines_about_noise_lost(pair: RunPair) -> None:
    """Ray drops what its workers print when it falls behind."""
    pair.aqn.log = _ADDED.sub("", pair.aqn.log)


@caught(LOG, Link.REACHED, "invalid", "RLX605", twin="noise-that-is-only-talked-about")
def noise_in_the_log_of_the_control(pair: RunPair) -> None:
    line = _ADDED.search(pair.aqn.log)
    assert line
    pair.baseline.log = _after_step(pair.baseline.log, 9, line[0])


@honest(LOG, Link.REACHED)
def noise_that_is_only_talked_about(pair: RunPair) -> None:
    text = 'a user asked: "[AQN] Applied noise to 5 RMSNorm layers (skipped 0 excluded layers)", what is that?\n'
    pair.baseline.log = _after_step(pair.baseline.log, 9, text)


# drawn


@honest(LOG, Link.DRAWN)
def lines_about_noise_folded_by_ray(pair: RunPair) -> None:
    """Beside records, what Ray makes of the printed lines counts for nothing."""
    said = re.compile(r"(Applied noise to 5 RMSNorm layers \(skipped 0 excluded layers\))")
    pair.aqn.log = said.sub(r"\1 [repeated 4x across cluster]", pair.aqn.log)


# felt


@caught(LOG, Link.FELT, "unverified", "RLX709", twin="log-rounded-to-three-decimals")
def gap_flat_in_the_log_alone(pair: RunPair) -> None:
    pair.aqn.set_in_log(GAP, {step: 1.3e-7 + 1e-8 * math.sin(step) for step in pair.aqn.gaps()})


@honest(LOG, Link.FELT)
def log_rounded_to_three_decimals(pair: RunPair) -> None:
    """As verl 0.4.1 and older print."""
    for run in pair.baseline, pair.aqn:
        run.log = re.sub(r"(?<=:)(-?\d+\.\d{4,}(?:e-?\d+)?|\d\S*e-\d+)(?= - |\n)", _rounded, run.log)


@caught(LOG, Link.FELT, "unverified", "RLX609", twin="log-without-a-metrics-file")
def gap_flat_in_a_log_without_a_metrics_file(pair: RunPair) -> None:
    pair.aqn.forget_metrics_file()
    pair.aqn.set_in_log(GAP, {step: 1.3e-7 + 1e-8 * math.sin(step) for step in range(1, 21)})


@honest(LOG, Link.FELT)
def log_without_a_metrics_file(pair: RunPair) -> None:
    pair.aqn.forget_metrics_file()


# lifted


@honest(LOG, Link.LIFTED)
def values_printed_without_their_type(pair: RunPair) -> None:
    """`0.95` in place of `np.float64(0.95)`, as numpy 1 prints."""
    for run in (pair.baseline, pair.aqn):
        run.log = re.sub(r"np\.(?:float|int)\d+\(([^)]*)\)", r"\1", run.log)


@caught(LOG, Link.LIFTED, "unverified", "RLX709", twin="values-printed-without-their-type")
def validation_with_another_value_in_the_log(pair: RunPair) -> None:
    pair.aqn.set_in_log(ACCURACY, {20: "np.float64(0.88)"})


@caught(LOG, Link.LIFTED, "unverified", "RLX709", twin="metrics-line-printed-twice")
def validation_with_two_values_in_the_log(pair: RunPair) -> None:
    """One of clean weights, and one of noisy ones."""
    lines = pair.aqn.log.splitlines(keepends=True)
    line = next(line for line in lines if " step:20 - " in line)
    other = re.sub(rf"{re.escape(ACCURACY)}:\S+", f"{ACCURACY}:np.float64(0.88)", line)
    pair.aqn.log = pair.aqn.log.replace(line, line + other)


@honest(LOG, Link.LIFTED)
def metrics_line_printed_twice(pair: RunPair) -> None:
    line = next(line for line in pair.aqn.log.splitlines(keepends=True) if " step:20 - " in line)
    pair.aqn.log = pair.aqn.log.replace(line, line + line)


# trained on


@caught(LOG, Link.TRAINED_ON, "invalid", "RLX654", twin="loss-lost-once-in-the-log")
def loss_lost_in_the_log_to_the_end(pair: RunPair) -> None:
    pair.aqn.forget_metrics_file()
    pair.aqn.set_in_log(LOSS, dict.fromkeys(range(9, 21), "nan"))


@honest(LOG, Link.TRAINED_ON)
def loss_lost_once_in_the_log(pair: RunPair) -> None:
    pair.aqn.forget_metrics_file()
    pair.aqn.set_in_log(LOSS, {12: "nan"})


@caught(LOG, Link.TRAINED_ON, "unverified", "RLX650", twin="rejection-in-the-log-that-takes-little")
def rejection_in_the_log(pair: RunPair) -> None:
    _rejected(pair, {step: 0.0 if step < 5 else 0.7 for step in range(1, 21)})


@honest(LOG, Link.TRAINED_ON)
def rejection_in_the_log_that_takes_little(pair: RunPair) -> None:
    _rejected(pair, {step: 0.02 if step < 5 else 0.12 for step in range(1, 21)})


@caught(LOG, Link.TRAINED_ON, "invalid", "RLX655", twin="log-without-a-metrics-file")
def gradients_of_zero_in_the_log(pair: RunPair) -> None:
    pair.aqn.forget_metrics_file()
    pair.aqn.set_in_log(GRADIENT, dict.fromkeys(range(1, 21), 0.0))


@caught(LOG, Link.TRAINED_ON, "incomplete", "RLX701", twin="log-without-a-metrics-file")
def log_that_ends_after_fourteen(pair: RunPair) -> None:
    pair.aqn.end_after(14)


def _rejected(pair: RunPair, shares: dict[int, float]) -> None:
    pair.aqn.forget_metrics_file()
    for key in (REJECTED, REJECTED_TOKENS):
        pair.aqn.set_in_log(key, dict(shares))


def _after_step(log: str, step: int, text: str) -> str:
    line = next(line for line in log.splitlines(keepends=True) if f" step:{step} - " in line)
    return log.replace(line, line + text)


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.3f}"
