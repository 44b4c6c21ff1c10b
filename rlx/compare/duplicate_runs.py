"""Runs that are one run: a log taken in twice, a copied directory, the metrics of another run in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from rlx.evidence import Evidence, JudgedRun
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import column
from rlx.evidence.reading.metric_table import Column

# Rounded seconds may agree by chance.
_DECIMALS = 2


def copies(runs: Sequence[JudgedRun], labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of labels whose runs have one record."""
    times = [step_seconds(run.evidence) for run in runs]
    return tuple(
        (labels[one], labels[two])
        for one, two in combinations(range(len(runs)), 2)
        if _have_one_log(runs[one], runs[two]) or _took_the_same_time(times[one], times[two])
    )


def _have_one_log(one: JudgedRun, two: JudgedRun) -> bool:
    digests = one.provenance.get("logs")
    return bool(digests) and digests == two.provenance.get("logs")


def step_seconds(evidence: Evidence) -> Mapping[str, Column]:
    """The columns of a run that say how long its steps took, by their names."""
    found = {key: column(evidence, key) for key in names_of(Role.STEP_SECONDS, evidence.backend)}
    return {key: times for key, times in found.items() if times.steps}


def _took_the_same_time(one: Mapping[str, Column], two: Mapping[str, Column]) -> bool:
    """Tell whether every step that both logged took the same time, to the fraction of a second.

    Equal values of a validation prove nothing: two runs of one seed may have them.
    """
    return any(_agree(times, two[key]) for key, times in one.items() if key in two)


def _agree(one: Column, two: Column) -> bool:
    """Step by step, for two runs mostly differ in the first: all values of a hundred runs take a second to gather."""
    measured = False
    for step, seconds in zip(one.steps, one.values, strict=True):
        others = two.at(step)
        if others is None:
            continue
        if seconds != others:
            return False
        measured |= seconds != round(seconds, _DECIMALS)
    return measured
