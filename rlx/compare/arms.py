"""The compared arms: their runs, one per seed, with labels, mean series and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Protocol, TypeVar

from rlx.compare.alignment import StepValue, final, finite, peak
from rlx.compare.difference_areas import ConfigDifference, DifferenceArea
from rlx.compare.metric import ItemCount, item_count
from rlx.compare.pace import HostLoad, host_load, pace, started
from rlx.compare.run_differences import RECIPE, differences
from rlx.evidence import JudgedRun, Verdict, VerdictStatus, core_metric, seeds_of_config, series
from rlx.evidence.metrics import disputed, row_counts
from rlx.model import RunState
from rlx.model.verdict_rules import is_made

Runs = Sequence[JudgedRun]
SEED = "seed"
_CONFIGS = ("config", "printed_config")
_NAMED = 5


class _Seeded(Protocol):
    @property
    def seed(self) -> int: ...


Seeded = TypeVar("Seeded", bound=_Seeded)


def same_seed(control: Sequence[Seeded], treatment: Sequence[Seeded]) -> tuple[Seeded, Seeded]:
    """Return one run of each arm: the first two with a seed in common, else the first of each. Their values do not
    matter.
    """
    same = [(left, right) for left in control for right in treatment if left.seed == right.seed]
    return same[0] if same else (control[0], treatment[0])


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run with its validation series. `label` is the shortest name that no other compared run has.

    `core_metric` is the validation metric that its own log shows, which need not be the one compared.
    `seconds_per_step` and `tokens_per_second` are medians over its steps, `training_seconds` is all steps together;
    None where it did not log them (see `pace`). `started`: when it was, in seconds since 1970 by its host, and `load`
    what that was busy with then; None where it did not record them. `disputed`: step -> the two values that its records
    have there.
    """

    run_id: str
    label: str
    name: str
    arm: str
    seed: int
    state: RunState
    verdict: Verdict
    core_metric: str | None
    items: ItemCount
    series: Mapping[int, float]
    peak: StepValue | None
    final: StepValue | None
    seconds_per_step: float | None = None
    tokens_per_second: float | None = None
    training_seconds: float | None = None
    started: float | None = None
    load: HostLoad | None = None
    disputed: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.state.is_terminal

    @property
    def exclusion(self) -> str:
        """Return the word that excludes its numbers; "" where they may be used. A running run may still get what it
        lacks.
        """
        return self.verdict.exclusion(ended=self.finished)

    @property
    def is_excluded(self) -> bool:
        """Tell whether its numbers are excluded."""
        return bool(self.exclusion)

    @property
    def word(self) -> str:
        """The word that must be read before a number of this run; "" where nothing qualifies it."""
        if not self.finished and not self.is_excluded:
            return self.state.value
        return "" if self.verdict.status is VerdictStatus.VALID else self.verdict.word


@dataclass(frozen=True, slots=True)
class ComparedArm:
    """One or more runs that differ in nothing but their seed; never empty.

    `series` is the mean over its runs at the steps where all of them have a value, `spread` their standard deviation
    there (n - 1), empty for a single run. `peak` and `final` are those of `series`. `differences`: what its runs differ
    in besides their seed, each compared with the first; it should be empty. `repeats`: why its runs are repeats of one
    seed; "" where each shows a seed of its own.
    """

    label: str
    arm: str
    runs: tuple[ComparedRun, ...]
    series: Mapping[int, float]
    spread: Mapping[int, float]
    peak: StepValue | None
    final: StepValue | None
    differences: tuple[ConfigDifference, ...] = ()
    repeats: str = ""

    @property
    def finished(self) -> bool:
        return all(run.finished for run in self.runs)

    @property
    def exclusion(self) -> str:
        """The word of its first excluded run, which excludes the arm: leaving a seed out afterwards biases the
        result.
        """
        return next((run.exclusion for run in self.runs if run.is_excluded), "")

    @property
    def is_excluded(self) -> bool:
        """Tell whether its numbers are excluded."""
        return bool(self.exclusion)

    @property
    def word(self) -> str:
        """The word that excludes the arm, else the first that qualifies any of its runs; "" where none does."""
        return self.exclusion or next((run.word for run in self.runs if run.word), "")

    @property
    def has_seeds(self) -> bool:
        """Tell whether it has several runs that are samples of different seeds."""
        return len(self.runs) > 1 and not self.repeats

    @property
    def repeats_words(self) -> str:
        return f"the runs of {self.label} are repeats of one seed: {self.repeats}"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)


def compared_arms(arms: Sequence[Runs], metric: str) -> tuple[ComparedArm, ...]:
    """Make an arm of each sequence of judged runs, with a label that no other has."""
    return tuple(_arm(runs, label, metric) for runs, label in zip(arms, _labels(arms), strict=True))


def arm_differences(control: Runs, treatment: Runs) -> tuple[ConfigDifference, ...]:
    """List what differs between two arms, each key once, what can move the result most first.

    Every treatment run is compared with the control run with its seed. Where an arm has several runs, the seeds are
    what it is sampled over and no difference.
    """
    of_one_run = len(control) == len(treatment) == 1
    return _differences((same_seed(control, [run]) for run in treatment), lambda item: of_one_run or item.key != SEED)


def _differences(
    pairs: Iterable[tuple[JudgedRun, JudgedRun]], counts: Callable[[ConfigDifference], bool]
) -> tuple[ConfigDifference, ...]:
    """List the differences that count of any of these pairs, each key once, ranked."""
    found: dict[str, ConfigDifference] = {}
    for pair in pairs:
        for item in filter(counts, differences(*pair)):
            found.setdefault(item.key, item)
    return tuple(sorted(found.values(), key=lambda item: item.area.rank))


def _arm(judged: Runs, label: str, metric: str) -> ComparedArm:
    of_seed = Counter(run.seed for run in judged)
    labels = [f"{label}-s{run.seed}" if of_seed[run.seed] == 1 else run.run_id for run in judged]
    labels = labels if len(judged) > 1 else [label]
    runs = tuple(_run(run, name, metric) for run, name in zip(judged, labels, strict=True))
    common = set(runs[0].series).intersection(*(run.series for run in runs[1:]))
    values = {step: [run.series[step] for run in runs] for step in sorted(common)}
    mean = {step: fmean(each) for step, each in values.items()}
    within = _differences(
        ((judged[0], run) for run in judged[1:]),
        lambda item: item.key not in (SEED, RECIPE) and item.area is not DifferenceArea.INCIDENTAL,
    )
    return ComparedArm(
        label=label,
        arm=runs[0].arm,
        runs=runs,
        series=mean,
        spread={step: stdev(each) for step, each in values.items()} if len(runs) > 1 else {},
        peak=peak(mean),
        final=final(mean),
        differences=within,
        repeats=why_repeats(judged),
    )


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


def _labels(arms: Sequence[Runs]) -> tuple[str, ...]:
    """Return the arm where it is unique among these, else with its seed, else with the recipe's name, else the ids."""
    names = []
    for runs in arms:
        first, ids = runs[0], ",".join(run.run_id for run in runs)
        is_single = len(runs) == 1
        with_seed = f"{first.arm}-s{first.seed}" if is_single else first.arm
        names.append((first.arm, with_seed, first.name if is_single else f"{first.plan.name}-{first.arm}", ids))
    taken = [Counter(column) for column in zip(*names, strict=True)]
    return tuple(
        next((name for name, count in zip(own, taken, strict=True) if count[name] == 1), own[-1]) for own in names
    )


def why_repeats(runs: Sequence[JudgedRun]) -> str:
    """Say why these runs, named after different seeds, are repeats of one seed; "" where each shows its own.

    A typed number is not the seed of a training: a launch script may not pass it on. Runs that are named after the same
    seed are another matter (RLX908). Older rules take each for what it is named.
    """
    is_asked = all(is_made("RLX913", run.verdict.rules) for run in runs)
    if len({run.seed for run in runs}) < 2 or not is_asked:
        return ""
    if hidden := [run for run in runs if _shown(run) is None]:
        return _not_shown(sorted({run.seed for run in hidden}))
    shown: dict[Hashable, JudgedRun] = {}
    for run in runs:
        first = shown.setdefault(_shown(run), run)
        if first.seed != run.seed:
            return f"the configurations of the runs with the seeds {first.seed} and {run.seed} have the same seeds"
    return ""


def _shown(run: JudgedRun) -> Hashable:
    """Identify the seed that a run shows: the seeds of its configuration, else the one that rlx wrote into its launch.

    None where the configuration has other seeds than the run is named after, or nothing shows a seed.
    """
    found = (seeds_of_config(run.provenance.get(kind, {})) for kind in _CONFIGS)
    if seeds := next(filter(None, found), None):
        return tuple(sorted(seeds.items())) if run.seed in seeds.values() else None
    return run.seed if run.plan.is_launched and run.plan.recipe.get("seed") == run.seed else None


def _not_shown(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"the seed {seeds[0]} does not appear in the run's configuration or log"
    more = f" and {len(seeds) - _NAMED} more" if len(seeds) > _NAMED else ""
    return f"the seeds {', '.join(map(str, seeds[:_NAMED]))}{more} do not appear in the runs' configurations or logs"
