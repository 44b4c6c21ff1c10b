"""Runs that are one run: a log taken in twice, a copied directory, the metrics of another run in its place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from rlx.evidence import Evidence, JudgedRun
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_names, value_at

# Rounded seconds may agree by chance.
_DECIMALS = 2


def copies(runs: Sequence[JudgedRun], labels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of labels whose runs have one record."""
    return tuple(
        (name, other)
        for (one, name), (two, other) in combinations(zip(runs, labels, strict=True), 2)
        if _have_one_log(one, two) or _took_the_same_time(one.evidence, two.evidence)
    )


def _have_one_log(one: JudgedRun, two: JudgedRun) -> bool:
    digests = one.provenance.get("logs")
    return bool(digests) and digests == two.provenance.get("logs")


def _took_the_same_time(one: Evidence, two: Evidence) -> bool:
    """Tell whether every step that both logged took the same time, to the fraction of a second.

    Equal values of a validation prove nothing: two runs of one seed may have them.
    """
    shared = metric_names(one) & metric_names(two)
    return any(_agree(one, two, key) for key in names_of(Role.STEP_SECONDS, one.backend) if key in shared)


def _agree(one: Evidence, two: Evidence, key: str) -> bool:
    """Step by step, for two runs mostly differ in the first: all values of a hundred runs take a second to gather."""
    measured = False
    for step in one.metrics:
        seconds, others = value_at(one, key, step), value_at(two, key, step)
        if seconds is None or others is None:
            continue
        if seconds != others:
            return False
        measured |= seconds != round(seconds, _DECIMALS)
    return measured
