"""Hold the validations before the training against each other: nothing was trained yet, so the arms must agree.

Answers need not agree bit by bit: another batch or device turns some where two tokens are nearly as likely. Such turns
go both ways. What goes one way at 0.1 % is another evaluation, or another model.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.compare.compared_arms import ComparedRun, same_seed
from rlx.compare.comparison_values import Pair
from rlx.compare.item_counts import are_counts
from rlx.compare.matching import Items
from rlx.compare.proportions import two_proportions
from rlx.compare.sentences import p_text
from rlx.evidence import ItemScores
from rlx.model import Finding, Severity

BEFORE = 0
ALPHA = 0.001
_FIX = "the same model, data, template and reward in both arms? rlx report shows what each run found"


def before_training(pair: Pair, items: Items, not_binary: str) -> Iterator[Finding]:
    """Object to arms that were apart before their training; note which share of the answers changed.

    Each treatment run is held against the control run with its seed, at 0.1 % for all of them together. `items`: scores
    per item of step 0; without them the shares of right answers are tested as if they were of other items, which errs
    on the cautious side. `not_binary`: why the values are no such shares, "" where they are. Other
    models are apart from the beginning.
    """
    if pair.of_other_models:
        return
    level = ALPHA / len(pair.treatment.runs)
    for run in pair.treatment.runs:
        control, _ = same_seed(pair.control.runs, [run])
        ours, theirs = items.get(control.run_id), items.get(run.run_id)
        if ours is not None and theirs is not None:
            yield from _by_item((control, run), ours, theirs, level)
        elif not not_binary:
            yield from _by_share((control, run), pair.items.n, level)


def exact_mcnemar_p(better: int, worse: int) -> float:
    """The two-sided p-value of the exact test of McNemar: each item that differs goes either way by a coin.

    Source: McNemar (1947), Note on the sampling error of the difference between correlated proportions, Psychometrika
    12:153-157, in its binomial form.
    """
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(better, worse), better + worse, 0.5)))


def _by_item(
    runs: tuple[ComparedRun, ComparedRun], ours: ItemScores, theirs: ItemScores, level: float
) -> Iterator[Finding]:
    left, right = ours.means, theirs.means
    shared = left.keys() & right.keys()
    better, worse = (sum(sign * (right[item] - left[item]) > 0 for item in shared) for sign in (1, -1))
    p_value, changed = exact_mcnemar_p(better, worse), _changed(ours, theirs)
    names = " and ".join(run.label for run in runs)
    if p_value < level:
        yield _refused(
            f"{names} differ before any training: of {len(shared)} items {better} are better and {worse} worse with "
            f"{runs[1].label} at step {BEFORE} (McNemar's exact test, p {p_text(p_value)}){changed and '; ' + changed}"
        )
    elif changed:
        yield Finding("RLX923", Severity.NOTE, f"{names} before any training: {changed}", "", step=BEFORE)


def _by_share(runs: tuple[ComparedRun, ComparedRun], n: int | None, level: float) -> Iterator[Finding]:
    values = [run.series.get(BEFORE) for run in runs]
    control, treatment = values
    if n is None or control is None or treatment is None:
        return
    if not all(are_counts(run.series.values(), n) for run in runs):
        return
    test = two_proportions(round(control * n), round(treatment * n), n)
    if test.p_value < level:
        names = " and ".join(run.label for run in runs)
        yield _refused(
            f"{names} differ before any training: {control:.4g} and {treatment:.4g} of {n} items at step {BEFORE}, "
            f"more than chance explains (p {p_text(test.p_value)})"
        )


def _changed(ours: ItemScores, theirs: ItemScores) -> str:
    """Say how many of the items that both answered have other answers; "" where none has, or no text was kept."""
    shared = [item for item in ours.answers.keys() & theirs.answers.keys()]
    # Rows of one item may come in any order.
    changed = sum(sorted(ours.answers[item]) != sorted(theirs.answers[item]) for item in shared)
    return f"{changed} of {len(shared)} answers changed ({100 * changed / len(shared):.2g} %)" if changed else ""


def _refused(message: str) -> Finding:
    return Finding("RLX923", Severity.ERROR, message, _FIX, step=BEFORE)
