"""Choose the training metrics that are drawn: those that show how a GRPO training goes, or the requested ones."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from statistics import fmean
from typing import Any

from rlx.compare.alignment import BEYOND
from rlx.errors import UsageError
from rlx.evidence import JudgedRun
from rlx.evidence.device_use import busy_percent, by_step, host_gib, memory_gib
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import column, is_named, metric_names, step_times
from rlx.evidence.reading.metric_table import NO_COLUMN, MetricColumn
from rlx.evidence.reading.usage_file import UsageSample
from rlx.evidence.run_evidence import ROLLOUT

MOST_POINTS = 160
MOST_METRICS = 48
_ROLES: tuple[tuple[str, Role] | tuple[str, Role, Role], ...] = (
    ("reward", Role.REWARD, Role.SCORE),
    ("entropy", Role.ENTROPY),
    ("KL of the update", Role.POLICY_KL),
    ("KL from the reference model", Role.REFERENCE_KL),
    ("response length, tokens", Role.RESPONSE_LENGTH),
    ("gradient norm", Role.GRAD_NORM),
    ("groups without advantage, share", Role.ZERO_ADVANTAGE_GROUPS),
    ("groups dropped", Role.FILTERED_GROUPS),
    ("effective sample size, share", Role.EFFECTIVE_SAMPLE_SIZE),
    ("device memory, GiB", Role.DEVICE_MEMORY),
    ("gap between rollout and actor", Role.PROBABILITY_GAP),
)
_SAMPLED: tuple[tuple[str, Callable[[str, UsageSample], float | None]], ...] = (
    ("sampled: memory of its fullest device, or its processes, GiB", memory_gib),
    ("sampled: utilisation of its devices, %", busy_percent),
    ("sampled: memory of its host, GiB", host_gib),
)


@dataclass(frozen=True, slots=True)
class TrainingMetric:
    """Something that a run measures at each step: `read` gives its column, empty where the run does not have it."""

    title: str
    read: Callable[[JudgedRun], MetricColumn]


@dataclass(frozen=True, slots=True)
class TrainingCurves:
    """One metric in all arms: the band of each, in their order; None where its runs have less than two steps of it."""

    title: str
    arms: tuple[SeedBand | None, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The curves that can be drawn, and the titles of those that cannot.

    `missing`: no arm has two steps of it. `zero`: 0 at every step of every arm. `more`: named, but too many to draw.
    """

    curves: tuple[TrainingCurves, ...]
    missing: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


def training_curves(arms: Sequence[Sequence[JudgedRun]], patterns: Sequence[str] = ()) -> Chosen:
    """Return the curves of these arms: of all metrics that the patterns name, without patterns of those in
    `usual_metrics`.

    Raises UsageError for patterns that fit no metric of any log.
    """
    named = _named([run for arm in arms for run in arm], patterns) if patterns else usual_metrics(arms)
    wanted, more = named[:MOST_METRICS], named[MOST_METRICS:]
    found = []
    for each in wanted:
        bands = [band([each.read(run) for run in arm], MOST_POINTS) for arm in arms]
        found.append(TrainingCurves(each.title, tuple(one if len(one.steps) > 1 else None for one in bands)))
    drawn = [each for each in found if any(each.arms)]
    highest = [max((abs(v) for arm in each.arms if arm for v in (*arm.low, *arm.high)), default=0.0) for each in drawn]
    zero = [each for each, most in zip(drawn, highest, strict=True) if not (patterns or most)]
    return Chosen(
        curves=tuple(each for each in drawn if each not in zero),
        missing=tuple(each.title for each in found if not any(each.arms)),
        zero=tuple(each.title for each in zero),
        more=tuple(each.title for each in more),
    )


def usual_metrics(arms: Sequence[Sequence[JudgedRun]]) -> tuple[TrainingMetric, ...]:
    """Return the metrics that show how a GRPO training goes, in reading order, then those of its devices."""
    of_role = [TrainingMetric(title, partial(_of_roles, roles)) for title, *roles in _ROLES]
    probe = TrainingMetric("probe: change of log p by the noise", _probe)
    sampled = _sampled_metrics([run for arm in arms for run in arm])
    return (*of_role, probe, TrainingMetric("seconds a step", _seconds), *sampled)


def _sampled_metrics(runs: Sequence[JudgedRun]) -> Sequence[TrainingMetric]:
    """Return the sampled metrics that some run has."""
    found = [TrainingMetric(title, partial(_sampled, read)) for title, read in _SAMPLED]
    return [each for each in found if any(each.read(run).steps for run in runs)]


def _sampled(read: Callable[[str, UsageSample], float | None], run: JudgedRun) -> MetricColumn:
    return by_step(run.usage, read)


def _of_roles(roles: Sequence[Role], run: JudgedRun) -> MetricColumn:
    """Return the first column that the log has under any name of these roles, the usual name first."""
    names = (name for role in roles for name in names_of(role, run.evidence.backend))
    return next((found for name in names if (found := column(run.evidence, name)).steps), NO_COLUMN)


def _seconds(run: JudgedRun) -> MetricColumn:
    times = step_times(run.evidence)
    return MetricColumn(array("q", times), array("d", times.values()))


def _probe(run: JudgedRun) -> MetricColumn:
    """Return the mean over the processes that looked, of the weights that each step's rollout was generated with."""
    looks: dict[int, list[float]] = defaultdict(list)
    for pair in run.evidence.probes:
        if pair.phase == ROLLOUT and pair.delta is not None:
            looks[pair.step].append(pair.delta)
    steps = sorted(looks)
    return MetricColumn(array("q", steps), array("d", [fmean(looks[step]) for step in steps]))


def _named(runs: Sequence[JudgedRun], patterns: Sequence[str]) -> tuple[TrainingMetric, ...]:
    logged = sorted(set().union(*(metric_names(run.evidence) for run in runs)))
    every = [*(TrainingMetric(name, partial(_logged, name)) for name in logged), *_sampled_metrics(runs)]
    for pattern in patterns:
        if not any(is_named(each.title, [pattern]) for each in every):
            raise UsageError(f"--metric {pattern}: no log has such a metric", "rlx metrics RUN lists all")
    return tuple(each for each in every if is_named(each.title, patterns))


def _logged(name: str, run: JudgedRun) -> MetricColumn:
    return column(run.evidence, name)


@dataclass(frozen=True, slots=True)
class SeedBand:
    """`mean`, `low` and `high` belong to `steps`, ascending. `runs`: how many; the bounds of one are its mean.

    `lost`: the steps at which some of the runs have a value and others none; they are not among `steps`, since a mean
    over fewer runs would jump there. `width`: how many steps at most a point is the mean of.
    """

    steps: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    runs: int
    lost: int = 0
    width: int = 1


def band(columns: Sequence[MetricColumn], most: int) -> SeedBand:
    """Return the band over one column a run, with at most `most` points: beyond, neighbouring steps are taken together.

    Values that are no finite numbers count as none.
    """
    import numpy as np

    runs = [_finite(column) for column in columns]
    every = reduce(np.union1d, (steps for steps, _ in runs))
    steps = reduce(np.intersect1d, (steps for steps, _ in runs))
    rows = np.stack([values[np.searchsorted(own, steps)] for own, values in runs])
    width = max(1, -(-len(steps) // most))
    mean, low, high = (_thinned(row, width) for row in (rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0)))
    return SeedBand(
        tuple(steps[width // 2 :: width].tolist()), mean, low, high, len(runs), len(every) - len(steps), width
    )


def _finite(column: MetricColumn) -> tuple[Any, Any]:
    import numpy as np

    steps, values = np.asarray(column.steps, np.int64), np.asarray(column.values, np.float64)
    good = np.abs(values) < BEYOND
    return steps[good], values[good]


def _thinned(values: Any, width: int) -> tuple[float, ...]:
    """Return the means of so many neighbours each; the last ones make a point if they are more than half as many."""
    import numpy as np

    starts = np.arange(0, len(values), width)
    if width == 1 or not len(values):
        return tuple(values.tolist())
    sizes = np.diff(np.append(starts, len(values)))
    means = np.add.reduceat(values, starts) / sizes
    return tuple(means[sizes > width // 2].tolist())
