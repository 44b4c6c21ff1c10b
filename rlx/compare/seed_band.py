"""The mean of a metric over the runs of an arm by step, with the lowest and the highest run: for reading, no test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from rlx.compare.align import BEYOND
from rlx.evidence.reading.metric_table import Column


@dataclass(frozen=True, slots=True)
class Band:
    """`mean`, `low` and `high` belong to `steps`, ascending. `runs`: how many; the bounds of one are its mean.

    `lost`: the steps at which some of the runs have a value and others none; they are not among `steps`, since a mean
    over fewer runs would jump there. `width`: how many steps at most a point is the mean of.
    """

    steps: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    runs: int
    lost: int = 0
    width: int = 1


def band(columns: Sequence[Column], most: int) -> Band:
    """The band over one column a run, with at most `most` points: beyond, neighbouring steps are taken together.

    Values that are no finite numbers count as none.
    """
    import numpy as np

    runs = [_finite(column) for column in columns]
    every = reduce(np.union1d, (steps for steps, _ in runs))
    steps = reduce(np.intersect1d, (steps for steps, _ in runs))
    rows = np.stack([values[np.searchsorted(own, steps)] for own, values in runs])
    width = max(1, -(-len(steps) // most))
    mean, low, high = (_thinned(row, width) for row in (rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0)))
    return Band(tuple(steps[width // 2 :: width].tolist()), mean, low, high, len(runs), len(every) - len(steps), width)


def _finite(column: Column) -> tuple[Any, Any]:
    import numpy as np

    steps, values = np.asarray(column.steps, np.int64), np.asarray(column.values, np.float64)
    good = np.abs(values) < BEYOND
    return steps[good], values[good]


def _thinned(values: Any, width: int) -> tuple[float, ...]:
    """The means of so many neighbours each; the last ones make a point if they are more than half as many."""
    import numpy as np

    starts = np.arange(0, len(values), width)
    if width == 1 or not len(values):
        return tuple(values.tolist())
    sizes = np.diff(np.append(starts, len(values)))
    means = np.add.reduceat(values, starts) / sizes
    return tuple(means[sizes > width // 2].tolist())
