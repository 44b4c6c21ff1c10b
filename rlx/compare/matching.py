"""Brings the per-item scores of two checkpoints together: the same items in the same order, or why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rlx.compare.comparison_values import Pair
from rlx.evidence import ItemScores
from rlx.evidence.grammars import grammars
from rlx.evidence.reading.item_scores import wanted_scores
from rlx.model import Finding, Severity

Items = Mapping[str, ItemScores]
"""The scores of one validation by run id; a run that kept none is not there."""
NO_ITEMS: Items = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MatchedItems:
    """`control` and `treatment` have the mean score of each of `items`, in their order."""

    items: tuple[str, ...]
    control: tuple[float, ...]
    treatment: tuple[float, ...]


def match_items(pair: Pair, items: Items, data_sources: int) -> tuple[MatchedItems | None, tuple[Finding, ...]]:
    """The items of the pair's two checkpoints at its step, and what speaks against them: RLX714.

    None with no finding where a run kept no outputs of this step, or they do not say which of several data sources
    they belong to.
    """
    control, treatment = (items.get(run.run_id) for run in pair.checkpoints)
    if control is None or treatment is None or not all(belongs(each, data_sources) for each in (control, treatment)):
        return None, ()
    if {control.step, treatment.step} != {pair.step}:
        return None, ()
    if problems := tuple(_other_items(pair, control, treatment)):
        return None, problems
    left, right, names = control.means, treatment.means, tuple(sorted(control.scores))
    return MatchedItems(names, tuple(map(left.__getitem__, names)), tuple(map(right.__getitem__, names))), ()


def not_by_item(pair: Pair, items: Items, data_sources: int) -> Iterator[Finding]:
    """Warn of checkpoints that could have been compared by item. `items`: the ids of runs whose scores are here."""
    if wanted_scores(pair.metric) is None:
        return
    without = [run.label for run in pair.checkpoints if run.run_id not in items]
    why = f"there are no scores per item of {' and '.join(without)} at step {pair.step}"
    if not without:
        why = f"the scores per item do not say which of {data_sources} data sources they are of"
    setting = next((f": {each.outputs_setting}" for each in grammars() if each.outputs_setting), "")
    yield Finding(
        "RLX912",
        Severity.WARNING,
        f"{why}, so the checkpoints are not compared item by item, which shows smaller differences",
        f"keep the outputs of each validation{setting}, as runs of rlx do; a log alone has none",
        step=pair.step,
    )


def belongs(scores: ItemScores, data_sources: int) -> bool:
    """Tell whether the scores are those of the one data source that the metric is of."""
    return data_sources <= 1 or scores.source is not None


def _answers(scores: ItemScores) -> int:
    return sum(map(len, scores.scores.values()))


def _other_items(pair: Pair, control: ItemScores, treatment: ItemScores) -> Iterator[Finding]:
    """Object to other rows, or another prompt around them; where one run lost some answers, that is a warning.

    Fewer items in as many answers are none that were lost: rows were replaced by others.
    """
    left, right = control.scores.keys(), treatment.scores.keys()
    if left == right:
        return
    names = [run.label for run in pair.checkpoints]
    counts = f"{len(left - right)} of {len(left)} and {len(right - left)} of {len(right)} are only with one of them"
    fewer, more = sorted((control, treatment), key=lambda scores: len(scores.scores))
    lost = (left < right or right < left) and _answers(fewer) < _answers(more)
    yield Finding(
        "RLX714",
        Severity.WARNING if lost else Severity.ERROR,
        f"{names[0]} and {names[1]} did not answer the same items: {counts}"
        + (", so they are not compared item by item" if lost else ""),
        "validate both arms on the same file with the same template; one with a date in it differs every day",
        step=pair.step,
    )
