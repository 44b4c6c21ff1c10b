"""Choose the metric that a comparison is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.evidence import JudgedRun, core_metric
from rlx.evidence.metrics import is_validation, metric_names
from rlx.model.post_metric import is_post


def choose_metric(runs: Sequence[JudgedRun], wanted: str | None) -> str:
    """The metric that `wanted` names in full or in part; without it, the first validation metric that a log shows."""
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
