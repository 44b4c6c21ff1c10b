"""Find a record that is one step off what was measured: noise that came a step later, or earlier, than it says.

Only the borders of stages can tell. Where noise comes a step late, the first step of each stage still has the level of
the stage before. If the record is right, the values of one stage could stand in any order: ranked by how near they are
to the level of the neighbouring stage, the first has any rank with one chance. The ranks of all borders are summed, and
the chance of so small a sum is exact (a rank test in blocks, after P. van Elteren, Bull. Inst. Int. Statist. 37 (1960)
351-361, with one treated value a block). Counted are borders between levels that differ by half; at least two of them,
and three quarters, must be on their neighbour's side: one odd step says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from rlx.evidence.charges.dose_response import DosedStep

_ALPHA = 0.004
_NEARER = 0.7
_LEVELS_DIFFER = math.log(1.5)
_SHORTEST = 3
_FEWEST = 2
_MOST = 0.75  # of the borders


@dataclass(frozen=True, slots=True)
class Border:
    """The value of a stage beside its neighbour: its rank among `size` by nearness to that one's level, 1 the nearest.

    `beyond`: it is clearly nearer to the neighbour's level than to that of its own stage.
    """

    rank: int
    size: int
    beyond: bool


def steps_off(steps: Sequence[DosedStep]) -> int:
    """1 where the noise came a step later than recorded, -1 where earlier, 0 where nothing shows either."""
    seen = (step for step in steps if step.gap > 0)
    stages = [[math.log(step.gap) for step in own] for _, own in groupby(seen, key=lambda step: step.dose)]
    told = [(one, other) for one, other in pairwise(stages) if _tell(one, other)]
    if _are_shifted([_border(later, earlier) for earlier, later in told]):
        return 1
    return -1 if _are_shifted([_border(earlier[::-1], later) for earlier, later in told]) else 0


def _tell(one: Sequence[float], other: Sequence[float]) -> bool:
    return min(len(one), len(other)) >= _SHORTEST and abs(median(one) - median(other)) >= _LEVELS_DIFFER


def _border(stage: Sequence[float], neighbour: Sequence[float]) -> Border:
    level = median(neighbour)
    distances = [abs(value - level) for value in stage]
    rank = 1 + sum(distance < distances[0] for distance in distances)
    return Border(rank, len(stage), distances[0] < _NEARER * abs(stage[0] - median(stage)))


def _are_shifted(borders: Sequence[Border]) -> bool:
    beyond = sum(border.beyond for border in borders)
    if beyond < max(_FEWEST, _MOST * len(borders)):
        return False
    return _chance(sum(border.rank for border in borders), [border.size for border in borders]) < _ALPHA


def _chance(most: int, sizes: Sequence[int]) -> float:
    """The chance that ranks drawn at random, one from 1 to each size, have this sum at most."""
    ways = [1]
    for size in sizes:
        ways = [sum(ways[max(0, total - size) : total]) for total in range(len(ways) + size)]
    return sum(ways[: most + 1]) / math.prod(sizes)
