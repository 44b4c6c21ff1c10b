"""Runs that are one run: a log taken in twice, a copied directory, the metrics of another run in its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from rlx.evidence import JudgedRun

_CLOCKS = ("timing_s/", "timing/", "perf/time_per_step")
# Rounded seconds may agree by chance.
_DECIMALS = 2


def copies(runs: Sequence[JudgedRun], labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of labels whose runs have one record."""
    named = list(zip(runs, labels, strict=True))
    return tuple((name, other) for (one, name), (two, other) in combinations(named, 2) if is_one_record(one, two))


def is_one_record(one: JudgedRun, two: JudgedRun) -> bool:
    """Whether both were read from the same logs, or took the same time for every step that both logged.

    Equal values prove nothing: two runs of one seed may have them. No two runs take the same fractions of a second.
    """
    digests = one.provenance.get("logs")
    return (bool(digests) and digests == two.provenance.get("logs")) or _have_one_clock(one, two)


def _have_one_clock(one: JudgedRun, two: JudgedRun) -> bool:
    left, right = one.evidence.metrics, two.evidence.metrics
    seen = False
    for step, values in left.items():
        for key, value in values.items():
            other = right.get(step, {}).get(key)
            if other is None or not key.startswith(_CLOCKS) or not math.isfinite(value):
                continue
            if value != other:
                return False
            seen |= value != round(value, _DECIMALS)
    return seen
