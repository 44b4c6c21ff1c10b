"""Choose the metrics of the training that are drawn: those that show how GRPO goes, or whatever somebody names."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from rlx.compare.seed_band import Band, band
from rlx.errors import UsageError
from rlx.evidence import JudgedRun
from rlx.evidence.device_use import busy_percent, by_step, host_gib, memory_gib
from rlx.evidence.grammars import names_of
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import column, is_named, metric_names
from rlx.evidence.reading.metric_table import NO_COLUMN, Column
from rlx.evidence.reading.usage_file import Sample
from rlx.evidence.run_evidence import ROLLOUT
from rlx.evidence.step_times import step_times

MOST_POINTS = 160
MOST_METRICS = 48


@dataclass(frozen=True, slots=True)
class TrainingMetric:
    """Something that a run measures at each step: `read` gives its column, empty where the run does not have it."""

    title: str
    read: Callable[[JudgedRun], Column]


@dataclass(frozen=True, slots=True)
class TrainingCurves:
    """One metric in all arms: the band of each, in their order; None where its runs have less than two steps of it."""

    title: str
    arms: tuple[Band | None, ...]


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
    """The curves of these arms: of all metrics that the patterns name, without patterns of those in `usual_metrics`.

    Raises UsageError for patterns that fit no metric of any log.
    """
    named = _named([run for arm in arms for run in arm], patterns) if patterns else usual_metrics(arms)
    wanted, more = named[:MOST_METRICS], named[MOST_METRICS:]
    found = [TrainingCurves(each.title, tuple(_band(each, arm) for arm in arms)) for each in wanted]
    drawn = [each for each in found if any(each.arms)]
    zero = [each for each in drawn if not patterns and _is_zero(each)]
    return Chosen(
        curves=tuple(each for each in drawn if each not in zero),
        missing=tuple(each.title for each in found if not any(each.arms)),
        zero=tuple(each.title for each in zero),
        more=tuple(each.title for each in more),
    )


def usual_metrics(arms: Sequence[Sequence[JudgedRun]]) -> tuple[TrainingMetric, ...]:
    """What shows how a GRPO training goes, in the order in which people read it, and what its devices did."""
    of_role = [TrainingMetric(title, partial(_of_roles, roles)) for title, *roles in _ROLES]
    probe = TrainingMetric("probe: change of log p by the noise", _probe)
    sampled = _sampled_metrics([run for arm in arms for run in arm])
    return (*of_role, probe, TrainingMetric("seconds a step", _seconds), *sampled)


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


_SAMPLED: tuple[tuple[str, Callable[[str, Sample], float | None]], ...] = (
    ("sampled: memory of its fullest device, or its processes, GiB", memory_gib),
    ("sampled: utilisation of its devices, %", busy_percent),
    ("sampled: memory of its host, GiB", host_gib),
)


def _sampled_metrics(runs: Sequence[JudgedRun]) -> Sequence[TrainingMetric]:
    """What samplers saw; without those that none of them did."""
    found = [TrainingMetric(title, partial(_sampled, read)) for title, read in _SAMPLED]
    return [each for each in found if any(each.read(run).steps for run in runs)]


def _sampled(read: Callable[[str, Sample], float | None], run: JudgedRun) -> Column:
    return by_step(run.usage, read)


def _of_roles(roles: Sequence[Role], run: JudgedRun) -> Column:
    """The first column that the log has under any name of these roles, the usual name first."""
    names = (name for role in roles for name in names_of(role, run.evidence.backend))
    return next((found for name in names if (found := column(run.evidence, name)).steps), NO_COLUMN)


def _seconds(run: JudgedRun) -> Column:
    times = step_times(run.evidence)
    return Column(array("q", times), array("d", times.values()))


def _probe(run: JudgedRun) -> Column:
    """The mean over the processes that looked, of the weights that each step's rollout was generated with."""
    looks: dict[int, list[float]] = defaultdict(list)
    for pair in run.evidence.probes:
        if pair.phase == ROLLOUT and pair.delta is not None:
            looks[pair.step].append(pair.delta)
    steps = sorted(looks)
    return Column(array("q", steps), array("d", [fmean(looks[step]) for step in steps]))


def _named(runs: Sequence[JudgedRun], patterns: Sequence[str]) -> tuple[TrainingMetric, ...]:
    logged = sorted(set().union(*(metric_names(run.evidence) for run in runs)))
    every = [*(TrainingMetric(name, partial(_logged, name)) for name in logged), *_sampled_metrics(runs)]
    for pattern in patterns:
        if not any(is_named(each.title, [pattern]) for each in every):
            raise UsageError(f"--metric {pattern}: no log has such a metric", "rlx metrics RUN lists all")
    return tuple(each for each in every if is_named(each.title, patterns))


def _logged(name: str, run: JudgedRun) -> Column:
    return column(run.evidence, name)


def _band(metric: TrainingMetric, runs: Sequence[JudgedRun]) -> Band | None:
    found = band([metric.read(run) for run in runs], MOST_POINTS)
    return found if len(found.steps) > 1 else None


def _is_zero(curves: TrainingCurves) -> bool:
    return not any(value for arm in _bands(curves) for value in (*arm.low, *arm.high))


def _bands(curves: TrainingCurves) -> Iterator[Band]:
    return (arm for arm in curves.arms if arm is not None)
