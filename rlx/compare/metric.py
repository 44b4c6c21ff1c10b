"""Choose the metric of a comparison; know its number of items and its unit."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.evidence import JudgedRun, core_metric
from rlx.evidence.metrics import is_core, is_validation, metric_names, source, statistic, variable
from rlx.model.post_metric import is_post

_ACCURACY = "acc"
_MAY_BE_SHARES = (_ACCURACY, "reward")
_OF_ANSWERS = re.compile(r"\w+@\d+(/mean)?")


def choose_metric(runs: Sequence[JudgedRun], wanted: str | None) -> str:
    """Return the metric that `wanted` names in full or in part; without it, the first validation metric that a log
    shows.
    """
    if wanted:
        logged = set().union(*(metric_names(run.evidence) for run in runs))
        return wanted if wanted in logged else _named(sorted(logged), wanted)
    shown = (core_metric(run.evidence, run.plan.expectations) for run in runs)
    if metric := next((metric for metric in shown if metric), None):
        return metric
    if all(run.state.is_terminal for run in runs):
        raise RlxError(
            "none of these runs has a validation metric in its log",
            "rlx logs shows what happened; --metric compares a training metric",
            ExitCode.NOT_VERIFIED,
        )
    raise RlxError(
        "no validation metric in any of these logs yet", "rlx wait, then compare again", ExitCode.NOT_FINISHED
    )


def other_sources(runs: Iterable[JudgedRun], metric: str) -> list[str]:
    """Name the metrics of other data sources that are as `metric` is of one: `val-core/*/acc/mean@1`."""
    if is_post(metric):
        return []
    kind, _, rest = metric.partition("/")
    statistic = "/".join(rest.split("/")[-2:])
    logged = set().union(*(metric_names(run.evidence) for run in runs))
    return sorted(
        key
        for key in logged
        if key.startswith(f"{kind}/") and key.endswith(f"/{statistic}") and key != metric and not is_post(key)
    )


def _named(keys: Sequence[str], wanted: str) -> str:
    matches = [key for key in keys if wanted in key]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"--metric {wanted}: fits {len(matches)} metrics of the log", f"name one: {', '.join(matches[:8])}"
        )
    from difflib import get_close_matches

    near = get_close_matches(wanted, keys, n=3, cutoff=0.4) or [key for key in keys if is_validation(key)][:8]
    raise UsageError(f"--metric {wanted}: no log has it", f"the nearest are: {', '.join(near)}" if near else "")


@dataclass(frozen=True, slots=True)
class ItemCount:
    """`n` items by `source`, in words; n is None where it is not known. The log outranks the plan: rows may be
    filtered.
    """

    n: int | None
    source: str


def item_count(planned: int | None, logged: int | None, plan: str = "the plan") -> ItemCount:
    """Return n from the plan and the log. `plan`: the source of the planned number, in words."""
    if logged is None:
        return ItemCount(planned, f"{plan}; the log does not say" if planned else f"neither {plan} nor the log says")
    if planned is None or planned == logged:
        return ItemCount(logged, f"{plan} and the log" if planned else "the log")
    return ItemCount(logged, f"the log; {plan} says {planned}")


def why_not_binary(metric: str, data_sources: int) -> str:
    """Say why this metric is not a share of correct answers out of all n items, or "".

    A reward of -1 or 1 whose means happen to be positive cannot be distinguished from a share; the recipe says which it
    is.
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
    """Return the decimals that the log prints: the most that any value has, so that a lone 0.5 does not count as
    rounded.
    """
    return max((len(repr(value).partition(".")[2]) for value in values if math.isfinite(value)), default=0)


@dataclass(frozen=True, slots=True)
class Unit:
    """`in_points`: values are shares, so that 0.0242 of difference is 2.4 points."""

    in_points: bool

    def signed(self, difference: float) -> str:
        """`+2.4`, without the unit; `+0.03` for less than a tenth, so that the side of 0 is visible."""
        if not self.in_points:
            return f"{difference:+.4g}"
        tenths = f"{100 * difference:+.1f}"
        return tenths if float(tenths) or not difference else f"{100 * difference:+.1g}"

    def change(self, difference: float) -> str:
        """`+2.4 points`."""
        return self._named(self.signed(difference))

    def size(self, difference: float) -> str:
        """`2.4 points`: how far apart, whichever is higher."""
        return self._named(self.signed(abs(difference))[1:])

    def bare(self, difference: float) -> str:
        """`2.4`."""
        return self.signed(abs(difference))[1:]

    def _named(self, number: str) -> str:
        return f"{number} points" if self.in_points else number
