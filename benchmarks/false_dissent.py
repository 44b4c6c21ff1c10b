"""How often the gap between rollout and actor dissents from honest runs, and what it sees of dishonest ones:

    python benchmarks/false_dissent.py

Each run is held to a record by which all noise came as planned, by the functions that rlx ships; what is simulated says
`simulated_gaps.py`. The other witnesses of a run are rules without chance, so that what the gap errs is what all of
them err together. Exits with 1 where in any line more than 0.1 % of the honest runs get a dissent, beyond twice the
error of the simulation. The power that the other columns show is reported, not promised.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from pathlib import Path

from numpy.random import default_rng

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.simulated_gaps import FLOORS, SCHEDULES, Simulated
from rlx.evidence.checks.gap_test import GapOutcome

STEPS = (10, 20, 50, 100, 200, 500)
BUDGET = 0.001
_DISHONEST = ("never", "one_step_late", "raised_and_flat")
HEAD = (
    "| floor, schedule, steps | correct: contradictions | agrees | never: contradictions | agrees "
    "| one step late: contradictions | agrees | raised, flat over sigma: dissents | agrees |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True, slots=True)
class Line:
    """Shares of (dissents, agrees) for honest runs, and for each kind of dishonest ones."""

    what: str
    runs: int
    shares: Sequence[tuple[float, float]]

    @property
    def broken(self) -> bool:
        return self.shares[0][0] > BUDGET + 2 * sqrt(BUDGET * (1 - BUDGET) / self.runs)

    def __str__(self) -> str:
        shown = (f"{100 * dissents:.2f} % | {100 * agrees:.1f} %" for dissents, agrees in self.shares)
        return f"| {self.what}{', **too often**' if self.broken else ''} | {' | '.join(shown)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3000, help="honest runs of each line (default: 3000)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (default: 1)")
    options = parser.parse_args(arguments)
    print(HEAD)
    broken = False
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for each in pool.map(line, kinds(), [options.runs] * len(kinds()), [options.seed] * len(kinds())):
            print(each, flush=True)
            broken = broken or each.broken
    return int(broken)


def kinds() -> list[Simulated]:
    """What is simulated, line by line: every floor, schedule and length; then weak noise, and a floor that is high."""
    grid = [Simulated(floor, schedule, steps) for floor, schedule, steps in product(FLOORS, SCHEDULES, STEPS)]
    walk = "bfloat16, random walk"
    weak = [Simulated(walk, "5 stages", steps, sigma=0.01) for steps in (50, 500)]
    return [*grid, *weak, *(replace(each, sigma=0.05, level=0.025) for each in weak)]


def line(kind: Simulated, runs: int, seed: int) -> Line:
    """One line of the table; a tenth as many runs for each dishonest kind."""
    what = f"{kind.floor}, {kind.schedule}, {kind.steps}"
    what += f", sigma {kind.sigma:g}" if kind.sigma != 0.05 else ""
    what += f", gap {kind.level:g}" if kind.level else ""
    shares = [share(kind, "honest", runs, seed)]
    shares += [share(kind, way, max(1, runs // 10), seed) for way in _DISHONEST]
    return Line(what, runs, shares)


def share(kind: Simulated, way: str, runs: int, seed: int) -> tuple[float, float]:
    """The shares of runs of which a witness dissents, and of which all agree."""
    rng = default_rng([seed, kind.steps, *map(ord, f"{kind.floor}{kind.schedule}{way}")])
    seen = Counter(kind.witness(getattr(kind, way)(rng)).outcome for _ in range(runs))
    return seen[GapOutcome.DISAGREES] / runs, seen[GapOutcome.AGREES] / runs


if __name__ == "__main__":
    sys.exit(main())
