"""Which test the values of two arms allow, and why none where they allow none."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.compare.items import are_counts
from rlx.compare.proportions import TwoProportions, two_proportions
from rlx.compare.values import Pair, Test
from rlx.plan import Finding, Severity


def choose_test(pair: Pair, findings: Sequence[Finding], not_binary: str) -> Test | str:
    """The test at the last common step, or the reason why there is none."""
    return why_no_test(pair, findings) or not_binary or _two_checkpoints(pair)


def why_no_test(pair: Pair, findings: Sequence[Finding]) -> str:
    """Why these two arms get no p-value, whatever the metric; "" where they may."""
    for run in pair.runs:
        if run.struck:
            return f"{run.label} is {run.verdict.status.value}"
    errors = (finding.message for finding in findings if finding.severity is Severity.ERROR)
    return next(errors, "" if pair.finished else "no p-value before both runs have finished")


def _two_checkpoints(pair: Pair) -> TwoProportions | str:
    n = pair.items.n
    if n is None or pair.step is None:
        return f"{pair.items.source} how many items the validation set has"
    for run in pair.checkpoints:
        if not are_counts(run.series.values(), n):
            return f"the values of {run.label} are not multiples of 1/{n}: no shares of correct answers"
    control, treatment = (round(run.series[pair.step] * n) for run in pair.checkpoints)
    return two_proportions(control, treatment, n)
