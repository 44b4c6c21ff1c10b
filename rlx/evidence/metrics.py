"""Choose the metric that is the result, read metrics by step, and measure the time of steps.

The time of a step is what the trainer logs for the whole step: generation, reward, training, weight sync, and its
validation and checkpoint if it has them. The usual time of a run is the median over all steps that it logged, so that
the first step and steps with a validation do not determine it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import median

from rlx.evidence.cache.evidence_cache import Columns
from rlx.evidence.grammars import core_prefixes, names_of, validation_prefixes
from rlx.evidence.log_grammar import Role
from rlx.evidence.reading.metric_table import NO_COLUMN, MetricColumn, MetricTable, Steps
from rlx.evidence.run_evidence import Evidence
from rlx.model import Expectations
from rlx.model.post_metric import POST, is_post

AUTO = "auto"
_WILD = frozenset("*?[")
_LONGEST_S = 1e10
# The remaining time follows from the last steps, because answers grow longer during the training.
_LATEST = 5


def metric_of(evidence: Evidence, role: Role) -> str:
    """Return the name under which this log has a role; else the usual one of its back-end. "" if there is no name."""
    names, logged = names_of(role, evidence.backend), metric_names(evidence)
    return next((name for name in names if name in logged), next(iter(names), ""))


def is_validation(metric: str) -> bool:
    """Tell whether it is of a validation, not of the training."""
    return metric.startswith(validation_prefixes())


def series(evidence: Evidence, key: str) -> dict[int, float]:
    """Return step -> value of one metric, steps ascending; NaN where the run logged NaN."""
    if isinstance(evidence.metrics, MetricTable):
        return evidence.metrics.series(key)
    return {step: values[key] for step, values in evidence.metrics.items() if key in values}


def column(evidence: Evidence, key: str) -> MetricColumn:
    """Return `series` as two columns; empty where no step has the metric."""
    if isinstance(evidence.metrics, MetricTable):
        return evidence.metrics.columns.get(key, NO_COLUMN)
    found = series(evidence, key)
    return MetricColumn(array("q", found), array("d", found.values()))


def disputed(evidence: Evidence, key: str) -> dict[int, tuple[float, float]]:
    """Return step -> the two values that the records of the run have of one metric."""
    found = (*evidence.disagreements, *evidence.conflicts)
    return {each.step: each.values for each in found if each.key == key}


def core_metric(evidence: Evidence, expectations: Expectations) -> str | None:
    """Return the metric that the run is judged by: the planned one, or the core key in the log.

    It is written `<core>/<data source>/<acc|reward>/<mean@n|maj@n/…|best@n/…>`. Of several, the one with a value at
    most validated steps; then `acc` before `reward`, mean before majority before best, then by name, so that two arms
    of one recipe are judged by the same key. None where the log has no such metric yet.
    """
    if expectations.metric != AUTO:
        return expectations.metric if series(evidence, expectations.metric) else None
    keys = core_keys(evidence)
    return min(keys, key=lambda key: (-len(finite(series(evidence, key))), *_preference(key))) if keys else None


def core_keys(evidence: Evidence) -> list[str]:
    """List all keys in the log by which a run may be judged, sorted."""
    return sorted(key for key in metric_names(evidence) if is_core(key))


def metric_names(evidence: Evidence) -> set[str]:
    """Return the names of all metrics in the log."""
    if isinstance(evidence.metrics, MetricTable):
        return set(evidence.metrics.columns)
    return {key for values in evidence.metrics.values() for key in values}


def data_sources(evidence: Evidence, metric: str | None = None) -> list[str]:
    """List the data sources that the rows of `metric` are from: those of all core keys.

    The rows of `eval: post` are one set, whatever the validations during the training have. A source may contain
    slashes itself.
    """
    if is_post(metric or ""):
        return [POST]
    return sorted({_parts(key)[0] for key in core_keys(evidence) if not is_post(key)})


def row_counts(evidence: Evidence, expectations: Expectations, metric: str) -> tuple[int | None, int | None]:
    """Return the number of rows that `metric` is the mean of: as planned, and as logged. None: unknown.

    The log states the rows of the validations during the training. For `eval: post`, they follow from the kept answers.
    """
    promised = expectations.validation_items if is_post(metric) == is_post(expectations.metric) else None
    if not is_post(metric):
        return promised, evidence.totals.validation_rows
    steps = validated_steps(evidence, metric)
    answers = evidence.answers.get(steps[-1]) if steps else None
    return promised, answers // samples(metric) if answers else None


def validated_steps(evidence: Evidence, metric: str | None) -> list[int]:
    """List the steps at which the metric has a finite value; without a metric, those of validations in the training.

    `eval.post` is not one of them: it answers from the saved checkpoint, in its own process.
    """
    if metric is not None:
        return list(finite(series(evidence, metric)))
    prefixes = validation_prefixes()
    names = (key for key in metric_names(evidence) if key.startswith(prefixes) and not is_post(key))
    return steps_with(evidence, names)


def steps_with(evidence: Evidence, keys: Iterable[str]) -> list[int]:
    """List the steps, ascending, at which any of these metrics was logged."""
    if isinstance(evidence.metrics, MetricTable):
        return sorted({step for steps in _step_lists(evidence.metrics.columns, keys) for step in steps})
    wanted = set(keys)
    return sorted(step for step, values in evidence.metrics.items() if not wanted.isdisjoint(values))


def _step_lists(columns: Mapping[str, MetricColumn], keys: Iterable[str]) -> Iterable[Steps]:
    """Return each distinct list of steps once, because most metrics have the same steps."""
    if isinstance(columns, Columns):
        return columns.step_lists(keys)
    return {bytes(steps): steps for steps in (columns[key].steps for key in keys)}.values()


def is_pattern(name: str) -> bool:
    """Tell whether it has `*`, `?` or `[…]` as in a shell."""
    return bool(_WILD & set(name))


def is_named(metric: str, names: Iterable[str]) -> bool:
    """Tell whether a metric matches any of the patterns or parts of names; without any, every metric does."""
    patterns = [name if is_pattern(name) else f"*{name}*" for name in names]
    return not patterns or any(fnmatchcase(metric, pattern) for pattern in patterns)


def forms(evidence: Evidence) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the names in each kind of metrics line before the last one, the latest last; and those in the last."""
    if isinstance(evidence.metrics, MetricTable):
        lines = evidence.metrics.forms()
    else:
        lines = [tuple(values) for values in evidence.metrics.values()]
    last = lines.pop() if lines else ()
    return [*dict.fromkeys(reversed(lines))][::-1], last


def finite(values: dict[int, float]) -> dict[int, float]:
    return {step: value for step, value in values.items() if math.isfinite(value)}


def source(key: str) -> str:
    """Return `openai/gsm8k` of `val-core/openai/gsm8k/acc/mean@1`."""
    return _parts(key)[0]


def is_core(key: str) -> bool:
    """Tell whether a run may be judged by it."""
    return any(key.startswith(core) if core.endswith("/") else key == core for core in core_prefixes())


def variable(key: str) -> str:
    """Return `acc` of `val-core/openai/gsm8k/acc/mean@1`."""
    return _parts(key)[1]


def statistic(key: str) -> str:
    """Return `mean@1` of `val-core/openai/gsm8k/acc/mean@1`."""
    return _parts(key)[2]


def samples(key: str) -> int:
    """Return the k of `mean@k`: how many answers per row the metric averages over; 1 where the name has none."""
    digits = _parts(key)[2].partition("@")[2].partition("/")[0]
    return int(digits) if digits.isdecimal() and len(digits) < 9 else 1


def _preference(key: str) -> tuple[int, int, str]:
    _, name, statistic = _parts(key)
    order = ("mean@", "maj@", "best@")
    rank = next((position for position, start in enumerate(order) if statistic.startswith(start)), len(order))
    return int(name != "acc"), rank, key


def _parts(key: str) -> tuple[str, str, str]:
    """Split into (data source, variable, statistic), from the right: `maj@8/mean` is a statistic with a slash."""
    prefix = next((each for each in validation_prefixes() if key.startswith(each)), "")
    parts = (key.partition("/")[2] if is_post(key) else key.removeprefix(prefix)).split("/")
    at = next((i for i in range(len(parts) - 1, -1, -1) if "@" in parts[i]), len(parts) - 1)
    return "/".join(parts[: at - 1]), parts[at - 1] if at else "", "/".join(parts[at:])


def step_times(evidence: Evidence) -> dict[int, float]:
    """Return step -> seconds, steps ascending; the first name of the back-end that has a time there counts."""
    found: dict[int, float] = {}
    for name in names_of(Role.STEP_SECONDS, evidence.backend):
        for step, seconds in series(evidence, name).items():
            if 0 < seconds < _LONGEST_S:
                found.setdefault(step, seconds)
    return dict(sorted(found.items()))


def usual_seconds(times: Sequence[float]) -> float | None:
    """Return the median; None without any."""
    return median(times) if times else None


def latest_seconds(times: Sequence[float]) -> float | None:
    """Return the median of the last five steps, which is used to estimate the remaining time."""
    return usual_seconds(times[-_LATEST:])
