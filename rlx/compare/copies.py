"""Runs that are one run: a log taken in twice, a copied directory, the metrics of another run in its place."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import combinations

from rlx.evidence import JudgedRun
from rlx.evidence.metrics import metric_names

_CLOCKS = ("timing_s/", "timing/", "perf/time_per_step")
# Rounded seconds may agree by chance.
_DECIMALS = 2


def copies(runs: Sequence[JudgedRun], labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of labels whose runs have one record."""
    named = [(run, label, _clocks(run)) for run, label in zip(runs, labels, strict=True)]
    return tuple(
        (name, other)
        for (one, name, clocks), (two, other, same) in combinations(named, 2)
        if _have_one_log(one, two) or _have_one_clock(one, two, clocks & same)
    )


def _clocks(run: JudgedRun) -> frozenset[str]:
    return frozenset(key for key in metric_names(run.evidence) if key.startswith(_CLOCKS))


def _have_one_log(one: JudgedRun, two: JudgedRun) -> bool:
    digests = one.provenance.get("logs")
    return bool(digests) and digests == two.provenance.get("logs")


def _have_one_clock(one: JudgedRun, two: JudgedRun, clocks: Set[str]) -> bool:
    """Whether both took the same time for every step that both logged.

    Equal values prove nothing: two runs of one seed may have them. No two runs take the same fractions of a second.
    """
    right = two.evidence.metrics
    seen = False
    for step, values in one.evidence.metrics.items() if clocks else ():
        other = right.get(step, {})
        for key in clocks & values.keys() & other.keys():
            if values[key] != other[key]:
                return False
            seen |= values[key] != round(values[key], _DECIMALS)
    return seen
