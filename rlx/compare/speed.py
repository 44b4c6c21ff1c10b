"""Compare how fast two arms were, by their runs: one run an arm tells what else its host did at that time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rlx.compare.seed_test import mean_test

FEWEST_RUNS = 3
"""An arm of fewer is not compared in speed: its times stand alone."""


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """Treatment against control, as a share of the control: 0.1 is 10 % more. `low` to `high`: the 95 % interval."""

    change: float
    low: float
    high: float


def speed_change(control: Sequence[float | None], treatment: Sequence[float | None]) -> SpeedChange | None:
    """The ratio of two geometric means, less 1; None for fewer than three runs an arm, or where one logged nothing.

    Times are compared by their logarithms, so that half as long and twice as long lie equally far from 1. The runs of
    an arm that were started after those of the other one may have met another load: no interval knows of that.
    """
    arms = [[math.log(value) for value in arm if value] for arm in (control, treatment)]
    if any(
        len(logs) < len(arm) or len(logs) < FEWEST_RUNS for logs, arm in zip(arms, (control, treatment), strict=True)
    ):
        return None
    if len(set(arms[0])) == len(set(arms[1])) == 1:
        return None
    import numpy as np

    test = mean_test(*map(np.array, arms))
    return SpeedChange(*(math.expm1(float(test.difference + way * test.half)) for way in (0, -1, 1)))
