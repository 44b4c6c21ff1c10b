"""Make arms of judged runs: labels, the mean series over the seeds, and what differs between two arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from rlx.compare.align import final, finite, peak
from rlx.compare.compared_arms import ComparedArm, ComparedRun, same_seed
from rlx.compare.config_diff import RECIPE, ConfigDifference
from rlx.compare.difference_areas import Area
from rlx.compare.item_counts import item_count
from rlx.compare.pace import host_load, pace, started
from rlx.compare.run_differences import differences
from rlx.compare.shown_seeds import why_repeats
from rlx.evidence import JudgedRun, core_metric, series
from rlx.evidence.metrics import disputed, row_counts

Runs = Sequence[JudgedRun]
SEED = "seed"


def compared_arms(arms: Sequence[Runs], metric: str) -> tuple[ComparedArm, ...]:
    return tuple(_arm(runs, label, metric) for runs, label in zip(arms, _labels(arms), strict=True))


def arm_differences(control: Runs, treatment: Runs) -> tuple[ConfigDifference, ...]:
    """List what differs between two arms, each key once, what can move the result most first.

    Every treatment run is held against the control run with its seed. Where an arm has several runs, the seeds are
    what it is sampled over and no difference.
    """
    of_one_run = len(control) == len(treatment) == 1
    found: dict[str, ConfigDifference] = {}
    for run in treatment:
        for item in differences(*same_seed(control, [run])):
            if of_one_run or item.key != SEED:
                found.setdefault(item.key, item)
    return _ranked(found.values())


def _within(runs: Runs) -> tuple[ConfigDifference, ...]:
    """List what the runs of one arm differ in, each key once, without what cannot move the result."""
    found: dict[str, ConfigDifference] = {}
    for run in runs[1:]:
        for item in differences(runs[0], run):
            if item.key not in (SEED, RECIPE) and item.area is not Area.INCIDENTAL:
                found.setdefault(item.key, item)
    return _ranked(found.values())


def _ranked(found: Iterable[ConfigDifference]) -> tuple[ConfigDifference, ...]:
    return tuple(sorted(found, key=lambda item: item.area.rank))


def _arm(judged: Runs, label: str, metric: str) -> ComparedArm:
    runs = tuple(_run(run, name, metric) for run, name in zip(judged, _run_labels(judged, label), strict=True))
    values = _values_by_step(runs)
    mean = {step: fmean(each) for step, each in values.items()}
    return ComparedArm(
        label=label,
        arm=runs[0].arm,
        runs=runs,
        series=mean,
        spread={step: stdev(each) for step, each in values.items()} if len(runs) > 1 else {},
        peak=peak(mean),
        final=final(mean),
        differences=_within(judged),
        repeats=why_repeats(judged),
    )


def _values_by_step(runs: Sequence[ComparedRun]) -> Mapping[int, list[float]]:
    """step -> the value of each run, at the steps where all have one."""
    common = set(runs[0].series).intersection(*(run.series for run in runs[1:]))
    return {step: [run.series[step] for run in runs] for step in sorted(common)}


def _run(run: JudgedRun, label: str, metric: str) -> ComparedRun:
    values = finite(series(run.evidence, metric))
    expected = run.plan.expectations
    speed = pace(run.evidence, run.plan.devices)
    return ComparedRun(
        run_id=run.run_id,
        label=label,
        name=run.name,
        arm=run.arm,
        seed=run.seed,
        state=run.state,
        verdict=run.verdict,
        core_metric=core_metric(run.evidence, expected),
        items=item_count(
            *row_counts(run.evidence, expected, metric), "the plan" if run.plan.has_recipe else "the import"
        ),
        series=values,
        peak=peak(values),
        final=final(values),
        seconds_per_step=speed.seconds_per_step,
        tokens_per_second=speed.tokens_per_second,
        training_seconds=speed.training_seconds,
        started=started(run.provenance),
        load=host_load(run.provenance),
        disputed=disputed(run.evidence, metric),
    )


def _run_labels(runs: Runs, label: str) -> list[str]:
    if len(runs) == 1:
        return [label]
    taken = Counter(run.seed for run in runs)
    return [f"{label}-s{run.seed}" if taken[run.seed] == 1 else run.run_id for run in runs]


def _labels(arms: Sequence[Runs]) -> tuple[str, ...]:
    """The arm where it is unique among these, else with its seed, else with the recipe's name, else the ids."""
    names = [_names(runs) for runs in arms]
    taken = [Counter(column) for column in zip(*names, strict=True)]
    return tuple(
        next((name for name, count in zip(own, taken, strict=True) if count[name] == 1), own[-1]) for own in names
    )


def _names(runs: Runs) -> tuple[str, str, str, str]:
    first, ids = runs[0], ",".join(run.run_id for run in runs)
    if len(runs) == 1:
        return first.arm, f"{first.arm}-s{first.seed}", first.name, ids
    return first.arm, first.arm, f"{first.plan.name}-{first.arm}", ids
