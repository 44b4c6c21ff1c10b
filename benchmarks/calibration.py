"""What the tests of `rlx compare` promise, held against simulated runs whose truth is known:

    python benchmarks/calibration.py

False alarms of 5 % tests, coverage of 95 % intervals with and without a true difference, and how often a difference
is found that is said to be seen with 80 % power. Every number comes from the functions that rlx ships. Exits with 1
where, without a difference, false alarms are more frequent than 6 %, or an interval covers less than 94 %, beyond
twice the error of the simulation. The one exception is marked as known: arms with unequal spreads with unequal numbers
of seeds, or two, of which `rlx compare` warns (RLX911). What is cautious (below 4 %, above 96.5 %) is marked, too, and
intervals that are too short for a true difference. Then few items (`few_items.py`), the tests of registered
questions, and four ways of choosing (`registered.py`); the known exception there is Dunnett's test where the arms
spread unlike each other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import few_items, registered
from benchmarks.calibrated import HEAD, Line, Tested, alarms, any_alarm, bounds, by_count, covered, line, visible
from benchmarks.simulated import both_answers, item_differences, right_answers, seed_values
from rlx.compare.paired import mcnemar_p, tango_interval
from rlx.compare.proportions import two_proportions
from rlx.compare.seed_test import mean_test
from rlx.compare.statistic import detectable_difference, t_test

ITEMS = (100, 200, 1319)
ACCURACIES = (0.05, 0.5, 0.7, 0.97)
LIKENESS = (0.3, 0.6)
SAMPLES = 8
TREATMENTS = 3
RUNS = ((2, 2), (3, 3), (5, 5), (10, 10), (2, 5), (3, 10))
SEED_SDS = (0.0, 0.005, 0.01, 0.02)
VARIANCES = (0.01, 0.1, 10, 20, 100)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=20_000, help="of each line (default: 20000)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (default: 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="the tables with this text in their title")
    options = parser.parse_args(arguments)
    rng, broken = default_rng(options.seed), False
    for title, head, lines in all_tables(rng, options.replications):
        if options.only not in title:
            continue
        print(f"\n### {title}\n\n{head}")
        for each in lines:
            print(each, flush=True)
            broken = broken or each.broken
    return int(broken)


def all_tables(rng: Generator, replications: int) -> Iterator[tuple[str, str, Iterator[Any]]]:
    """Title, head and lines of each table, which are made as they are asked for."""
    yield from ((title, HEAD, lines) for title, lines in tables(rng, replications))
    yield "One run per arm, mean@1, no outputs, few items", few_items.HEAD, few_items.lines()
    yield from registered.tables(rng, replications)


def tables(rng: Generator, replications: int) -> Iterator[tuple[str, Iterator[Line]]]:
    alone = list(product(ITEMS, ACCURACIES))
    like = list(product(ITEMS, ACCURACIES, LIKENESS))
    unlike = list(product(ITEMS, ACCURACIES, (0.0, LIKENESS[-1])))
    seeds = list(product(RUNS, SEED_SDS))
    any_of = f"any of {TREATMENTS} treatments, after Holm"
    yield "One run per arm, mean@1, paired", (paired_shares(rng, replications, *each) for each in like)
    yield f"One run per arm, mean@{SAMPLES}, paired", (paired_means(rng, replications, *each) for each in like)
    yield "One run per arm, mean@1, no outputs per item", (shares(rng, replications, *each) for each in unlike)
    yield f"One run per arm, mean@1, paired, {any_of}", (corrected_shares(rng, replications, *each) for each in alone)
    yield "Several seeds per arm, 1319 items at 70 %", (seeded(rng, replications, *each) for each in seeds)
    spread = list(product(RUNS, VARIANCES))
    yield "Several seeds per arm with unequal spreads", (spread_apart(rng, replications, *each) for each in spread)
    yield f"Several seeds per arm, {any_of}", (corrected_seeds(rng, replications, *each) for each in seeds)


def paired_shares(rng: Generator, replications: int, items: int, accuracy: float, likeness: float) -> Line:
    """McNemar's test and Tango's interval."""
    apart = accuracy * (1 - accuracy) * (1 - likeness)

    def test(effect: float) -> Tested:
        counts = both_answers(rng, (replications, items), accuracy, likeness, effect)
        return by_count(counts[:, 1:3], lambda b, c: (mcnemar_p(b, c), *tango_interval(b, c, items)))

    return line(_items_named(items, accuracy, likeness), test, visible(2 * apart, items), 1.5 * apart)


def paired_means(rng: Generator, replications: int, items: int, accuracy: float, likeness: float) -> Line:
    """Student's t on the differences of the items' means."""
    variance = 2 * accuracy * (1 - accuracy) * (1 - likeness) / SAMPLES

    def test(effect: float) -> Tested:
        kinds, counts = item_differences(rng, (replications, items), accuracy, likeness, SAMPLES, effect)
        means = counts @ kinds / items
        spreads = np.sqrt((counts @ kinds**2 - items * means**2) / (items - 1))
        return bounds(t_test(means, spreads / np.sqrt(items), items - 1))

    return line(_items_named(items, accuracy, likeness), test, visible(variance, items), 0.8 * (1 - accuracy))


def shares(rng: Generator, replications: int, items: int, accuracy: float, likeness: float) -> Line:
    """The z test of two proportions and Newcombe's interval."""
    variance = 2 * accuracy * (1 - accuracy)

    def test(effect: float) -> Tested:
        both, treatment, control, _ = both_answers(rng, (replications, items), accuracy, likeness, effect).T
        return by_count(np.stack([both + control, both + treatment], axis=1), lambda a, b: _shares_test(a, b, items))

    largest = 0.75 * variance * (1 - likeness)
    return line(_items_named(items, accuracy, likeness), test, visible(variance, items), largest)


def corrected_shares(rng: Generator, replications: int, items: int, accuracy: float) -> Line:
    ways, answered = right_answers(rng, (replications, items), accuracy, LIKENESS[0], 1 + TREATMENTS)
    counts = [_better_and_worse(ways[:, 0], arm, answered) for arm in ways.T[1:]]
    p_values = np.stack([by_count(each, lambda b, c: (mcnemar_p(b, c), 0.0, 0.0))[0] for each in counts])
    return Line(_items_named(items, accuracy, LIKENESS[0]), replications, any_alarm(p_values))


def seeded(rng: Generator, replications: int, runs: tuple[int, int], seed_sd: float) -> Line:
    """Welch's t, or Student's where its interval is wider. `found`: at the difference seen with the true spread."""
    drawn = seed_values(rng, (2, replications, max(runs)), ITEMS[-1], seed_sd)
    control, treatment = drawn[0][:, : runs[0]], drawn[1][:, : runs[1]]
    error = float(drawn.std() * np.sqrt(1 / runs[0] + 1 / runs[1]))

    p_values, low, high = bounds(mean_test(control, treatment))
    found = alarms(mean_test(control, treatment + detectable_difference(error, sum(runs) - 2)).p_value)
    # A shift of all values changes nothing else, so coverage of a true difference is the same.
    return Line(_seeds_named(runs, seed_sd), replications, alarms(p_values), covered(low, high, 0.0), found=found)


def spread_apart(rng: Generator, replications: int, runs: tuple[int, int], ratio: float) -> Line:
    """Normal values, where the control's variance is `ratio` times that of the treatment."""
    control, treatment = (rng.normal(size=(replications, count)) for count in runs)
    p_values, low, high = bounds(mean_test(np.sqrt(ratio) * control, treatment))
    name = f"{runs[0]} and {runs[1]} seeds, variances {max(ratio, 1):g} to {max(1 / ratio, 1):g}"
    warned = runs[0] != runs[1] or runs[0] == 2
    return Line(name, replications, alarms(p_values), covered(low, high, 0.0), warned=warned)


def corrected_seeds(rng: Generator, replications: int, runs: tuple[int, int], seed_sd: float) -> Line:
    control, *treatments = seed_values(rng, (1 + TREATMENTS, replications, max(runs)), ITEMS[-1], seed_sd)
    p_values = np.stack([mean_test(control[:, : runs[0]], arm[:, : runs[1]]).p_value for arm in treatments])
    return Line(_seeds_named(runs, seed_sd), replications, any_alarm(p_values))


def _shares_test(control: int, treatment: int, items: int) -> tuple[float, float, float]:
    test = two_proportions(control, treatment, items)
    return test.p_value, test.low, test.high


def _better_and_worse(control: NDArray[np.bool_], treatment: NDArray[np.bool_], answered: NDArray[np.int64]) -> Any:
    """(replications, 2): items that only the treatment, and only the control, answered right."""
    return np.stack([answered @ (treatment & ~control), answered @ (control & ~treatment)], axis=1)


def _items_named(items: int, accuracy: float, likeness: float) -> str:
    return f"n = {items}, {100 * accuracy:g} %, likeness {likeness:g}"


def _seeds_named(runs: tuple[int, int], seed_sd: float) -> str:
    return f"{runs[0]} and {runs[1]} seeds, sd {100 * seed_sd:g} points"


if __name__ == "__main__":
    sys.exit(main())
