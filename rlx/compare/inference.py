"""Choose the test that the values of two arms allow, or say why they allow none."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.compare.comparison_values import Pair, Test
from rlx.compare.item_counts import are_counts
from rlx.compare.matching import MatchedItems
from rlx.compare.paired import paired_items
from rlx.compare.proportions import TwoProportions, two_proportions
from rlx.compare.seed_test import WelchSeeds, welch_seeds
from rlx.plan import Finding, Severity

_SAY_N = "; --val-size of rlx import, or data.val_rows in the recipe, can"


def choose_test(pair: Pair, findings: Sequence[Finding], not_binary: str, matched: MatchedItems | None) -> Test | str:
    """The test at the last common step, or the reason why there is none.

    Several seeds an arm: the treatment. Else two checkpoints: paired where the outputs per item are there, as two
    shares of right answers where the metric is one.
    """
    if (reason := why_no_test(pair, findings)) or pair.step is None:
        return reason
    if pair.has_seeds:
        return _treatment(pair, pair.step)
    if matched:
        return paired_items(matched.control, matched.treatment)
    return not_binary or _two_shares(pair, pair.step)


def why_no_test(pair: Pair, findings: Sequence[Finding]) -> str:
    """Say why these two arms get no p-value, whatever the metric; "" where they may."""
    for run in pair.runs:
        if run.struck:
            return f"{run.label} is {run.verdict.status.value}"
    errors = (finding.message for finding in findings if finding.severity is Severity.ERROR)
    both = "both" if len(pair.runs) == 2 else "all"
    return next(errors, "" if pair.finished else f"no p-value before {both} runs have finished")


def _treatment(pair: Pair, step: int) -> WelchSeeds | str:
    control, treatment = ([run.series[step] for run in arm.runs] for arm in pair.arms)
    return welch_seeds(control, treatment)


def _two_shares(pair: Pair, step: int) -> TwoProportions | str:
    n = pair.items.n
    if n is None:
        return _without_n(pair)
    for run in pair.checkpoints:
        if not are_counts(run.series.values(), n):
            return f"the values of {run.label} are not multiples of 1/{n}: no shares of correct answers"
    control, treatment = (round(run.series[step] * n) for run in pair.checkpoints)
    return two_proportions(control, treatment, n)


def _without_n(pair: Pair) -> str:
    """n of one checkpoint is not taken for the other's: that one may have been validated on other items."""
    runs = sorted(pair.checkpoints, key=lambda run: run.items.n is not None)
    unknown, other = runs
    words, fix = f"{unknown.items.source} how many items the validation set", _SAY_N
    if other.items.n is None:
        return f"{words} has{fix}"
    known = f"{other.label} (n = {other.items.n} from {other.items.source})"
    return f"{words} of {unknown.label} has, and nothing shows that it is the one of {known}{fix}"
