"""Find how many items a validation value is the mean of, who says so, and whether it is a share of correct answers."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from rlx.evidence.metrics import is_core, is_validation, source, statistic, variable

_ACCURACY = "acc"
_MAY_BE_SHARES = (_ACCURACY, "reward")
_OF_ANSWERS = re.compile(r"\w+@\d+(/mean)?")


@dataclass(frozen=True, slots=True)
class ItemCount:
    """`n` items by `source`, in words; n is None where nobody says. The log outranks the plan: rows may be filtered."""

    n: int | None
    source: str


def item_count(planned: int | None, logged: int | None, plan: str = "the plan") -> ItemCount:
    """n from what was promised and what the log reports. `plan`: who promised it, in words."""
    if logged is None:
        return ItemCount(planned, f"{plan}; the log does not say" if planned else f"neither {plan} nor the log says")
    if planned is None or planned == logged:
        return ItemCount(logged, f"{plan} and the log" if planned else "the log")
    return ItemCount(logged, f"the log; {plan} says {planned}")


def why_not_binary(metric: str, data_sources: int) -> str:
    """Say why this metric is not a share of correct answers out of all n items, or "".

    A reward of -1 or 1 whose means happen to be positive cannot be told from a share; the recipe says which it is.
    """
    if not (
        is_core(metric) and source(metric) and variable(metric) in _MAY_BE_SHARES and statistic(metric) == "mean@1"
    ):
        return f"{metric} is not the mean@1 of a binary accuracy or reward"
    if data_sources > 1:
        return f"the validation set has {data_sources} data sources, and the log does not say how n divides among them"
    return ""


def is_share(metric: str, values: Collection[float]) -> bool:
    """Tell whether differences of this metric are points: a mean of accuracies or of rewards from 0 to 1."""
    named = is_validation(metric) and source(metric) and variable(metric) in _MAY_BE_SHARES
    return bool(named and _OF_ANSWERS.fullmatch(statistic(metric))) and all(0 <= value <= 1 for value in values)


def is_accuracy_above_one(metric: str, values: Collection[float]) -> bool:
    """Tell whether these accuracies are no shares: percent, or points of some other scale."""
    return is_validation(metric) and variable(metric) == _ACCURACY and max(values, default=0.0) > 1


def are_counts(values: Collection[float], n: int) -> bool:
    """Tell whether every value can be k correct answers out of n, as far as the printed decimals tell."""
    slack = max(1e-4, 0.501 * n * 10.0 ** -printed_decimals(values))
    return all(0 <= value <= 1 and abs(value * n - round(value * n)) <= slack for value in values)


def printed_decimals(values: Collection[float]) -> int:
    """The decimals that the log prints: the most that any value has, so that a lone 0.5 does not count as rounded."""
    return max((len(repr(value).partition(".")[2]) for value in values if math.isfinite(value)), default=0)
