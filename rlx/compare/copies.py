"""Runs that are one run: a log taken in twice, a copied directory, the metrics of another run in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from rlx.evidence import JudgedRun, series

# Seconds a step, as verl and MindSpeed-RL log them.
_CLOCKS = ("timing_s/step", "perf/time_per_step", "timing/all")
# Rounded seconds may agree by chance.
_DECIMALS = 2
_Clocks = Sequence[Mapping[int, float]]


def copies(runs: Sequence[JudgedRun], labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of labels whose runs have one record."""
    named = [(run, label, _clocks(run)) for run, label in zip(runs, labels, strict=True)]
    return tuple(
        (name, other)
        for (one, name, clocks), (two, other, their_clocks) in combinations(named, 2)
        if _have_one_log(one, two) or any(map(_took_the_same_time, clocks, their_clocks))
    )


def _clocks(run: JudgedRun) -> _Clocks:
    return [series(run.evidence, key) for key in _CLOCKS]


def _have_one_log(one: JudgedRun, two: JudgedRun) -> bool:
    digests = one.provenance.get("logs")
    return bool(digests) and digests == two.provenance.get("logs")


def _took_the_same_time(one: Mapping[int, float], two: Mapping[int, float]) -> bool:
    """Whether every step that both logged took the same time, to the fraction of a second.

    Equal values of a validation prove nothing: two runs of one seed may have them.
    """
    measured = False
    for step, seconds in one.items():
        if step in two:
            if seconds != two[step]:
                return False
            measured |= seconds != round(seconds, _DECIMALS)
    return measured
