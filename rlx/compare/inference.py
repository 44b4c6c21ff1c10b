"""Choose the test that the values of two arms allow, or say why they allow none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlx.compare.comparison_values import Pair
from rlx.compare.metric import are_counts
from rlx.compare.outputs import MatchedItems
from rlx.compare.paired import paired_items
from rlx.compare.proportions import two_proportions
from rlx.compare.seed_test import welch_seeds
from rlx.compare.statistic import Statistic
from rlx.model import Finding, Severity

_SAY_N = "; --val-size of rlx import, or data.val_rows in the recipe, can"


@dataclass(frozen=True, slots=True)
class _Sample:
    """Two arms at one step. `not_binary`: why their values are no shares of right answers, "" where they may be."""

    pair: Pair
    step: int
    not_binary: str
    matched: MatchedItems | None


def choose_test(
    pair: Pair, findings: Sequence[Finding], not_binary: str, matched: MatchedItems | None
) -> Statistic | str:
    """Return the test at the last common step, or the reason why there is none: that of the first row that fits."""
    if (reason := why_no_test(pair, findings)) or pair.step is None:
        return reason
    sample = _Sample(pair, pair.step, not_binary, matched)
    return next(infer(sample) for fits, infer in _STATISTICS if fits(sample))


def why_no_test(pair: Pair, findings: Sequence[Finding]) -> str:
    """Say why these two arms get no p-value, whatever the metric; "" where they may."""
    for run in pair.runs:
        if run.is_excluded:
            return f"{run.label} is {run.verdict.word}"
    errors = (finding.message for finding in findings if finding.severity is Severity.ERROR)
    both = "both" if len(pair.runs) == 2 else "all"
    unfinished = "" if pair.finished else f"no p-value before {both} runs have finished"
    return next(errors, unfinished or pair.withheld)


def _of_treatment(sample: _Sample) -> Statistic | str:
    control, treatment = ([run.series[sample.step] for run in arm.runs] for arm in sample.pair.arms)
    return welch_seeds(control, treatment)


def _of_items(sample: _Sample) -> Statistic | str:
    assert sample.matched is not None
    return paired_items(sample.matched.control, sample.matched.treatment)


def _of_shares(sample: _Sample) -> Statistic | str:
    pair, step, n = sample.pair, sample.step, sample.pair.items.n
    if sample.not_binary:
        return sample.not_binary
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


_STATISTICS: tuple[tuple[Callable[[_Sample], bool], Callable[[_Sample], Statistic | str]], ...] = (
    (lambda sample: sample.pair.has_seeds, _of_treatment),
    (lambda sample: sample.matched is not None, _of_items),
    (lambda sample: True, _of_shares),
)
"""Which statistic fits, tried in order: several seeds an arm, outputs per item, else shares of right answers."""
