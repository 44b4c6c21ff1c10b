"""Find what forbids or limits a comparison of one control and one treatment: one function for each finding id."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rlx.compare.arms import ComparedArm
from rlx.compare.comparison_values import COLLAPSED, Pair
from rlx.compare.difference_areas import ConfigDifference, DifferenceArea
from rlx.compare.equal_runs import EqualRuns, Times
from rlx.compare.evaluation_conditions import Condition, Measure
from rlx.compare.metric import is_accuracy_above_one
from rlx.compare.run_differences import RECIPE, is_training_setting
from rlx.evidence.verdict import counted
from rlx.model import Finding, Severity
from rlx.model.verdict_rules import is_made

_NAMED = 5
_SAME_WAY = "evaluate both arms in the same way on the same items"
_FIXES = {
    Condition.REWARD: "one reward for both arms; where another one is the treatment, it must not grade: give both arms "
    "a held-out evaluation with a reward of its own, eval: {post: {rows: FILE, reward: {path: FILE}}}",
    Condition.WEIGHTS: "start both arms from the same weights; rlx report shows the digests",
    Condition.PRECISION: "the same model.dtype in both arms, or evaluate both checkpoints in one precision",
}


def pair_findings(pair: Pair) -> tuple[Finding, ...]:
    """Return all findings about one control and one treatment, in order of their ids."""
    checks = (
        nothing_says_what_differs,
        one_run_twice,
        arms_do_not_differ,
        other_evaluation,
        possible_confounders,
        confounding_settings,
        no_common_step,
        one_seed,
        unknown_evaluation,
        control_collapsed,
    )
    return tuple(finding for check in checks for finding in check(pair))


def nothing_says_what_differs(pair: Pair) -> Iterator[Finding]:
    """Warn of runs that were imported or tracked without a recipe, or launched by a user's script."""
    if any(item.key == RECIPE for item in pair.differences):
        yield Finding(
            "RLX718",
            Severity.WARNING,
            f"no recipe says what differs between {pair.control.label} and {pair.treatment.label}: "
            "data, model, training and evaluation may",
            "take both in with --recipe, or launch both by one",
        )


def one_run_twice(pair: Pair) -> Iterator[Finding]:
    """Object to one run that stands for two, because it is neither a control of itself nor another sample."""
    if pair.copies:
        (one, two), *others = pair.copies
        more = f", and so are {len(others)} more pairs" if others else ""
        yield Finding(
            "RLX901",
            Severity.ERROR,
            f"{one} and {two} are one run: their logs are the same{more}",
            "rlx status -v says where each comes from; import the log of the other run",
        )


def arms_do_not_differ(pair: Pair) -> Iterator[Finding]:
    known = [item for item in pair.differences if item.key not in ("seed", RECIPE)]
    if not known and pair.of_one_name:
        yield Finding(
            "RLX901",
            Severity.ERROR,
            f"{pair.control.label} and {pair.treatment.label} are runs of one arm, {pair.control.arm}: what differs is "
            "the seed, at most",
            "name another arm; runs of one arm, joined by commas, count together",
        )
    elif all(item.key == "seed" or item.area is DifferenceArea.INCIDENTAL for item in pair.differences):
        labels = f"{pair.control.label} and {pair.treatment.label}"
        yield Finding(
            "RLX901",
            Severity.ERROR,
            f"{labels} are the same experiment: nothing differs that could move the result",
            "compare runs of different arms, or check with rlx show RECIPE what the keys of the arm change",
        )


def other_evaluation(pair: Pair) -> Iterator[Finding]:
    """Object to another metric, validation set or way to evaluate, even a declared one: a treatment may only change
    the training.
    """
    labels = pair.control.label, pair.treatment.label
    for what, control, treatment in _other_measurement(pair):
        message = f"{what} differs: {labels[0]} has {control}, {labels[1]} has {treatment}"
        yield Finding("RLX902", Severity.ERROR, message, _SAME_WAY)
    for condition, (first, *others) in pair.broken.items():
        key = "" if first.key in condition else f" ({first.key})"
        values = f"{labels[0]} has {brief(first.control)}, {labels[1]} has {brief(first.treatment)}"
        more = f"; and {named(others)}" if others else ""
        message = f"not evaluated alike, in {condition}{key}: {values}{more}"
        yield Finding("RLX902", Severity.ERROR, message, _FIXES.get(condition, _SAME_WAY))


def confounding_settings(pair: Pair) -> Iterator[Finding]:
    """Object to a setting of the training that differs and that no arm declares: it may be the cause instead.

    If whole systems are compared, only count the differences: none is credited, none is an error.
    """
    if pair.measure.systems:
        words = f"whole systems are compared, {counted(len(pair.differences), 'difference')}: {named(pair.differences)}"
        yield Finding("RLX933", Severity.NOTE, words, "compare arms of one recipe to credit a setting")
    elif found := _confounders(pair):
        yield Finding(
            "RLX932",
            Severity.ERROR,
            f"{pair.treatment.label} and {pair.control.label} were trained with other settings that no arm declares: "
            f"{named(found)}",
            "declare them in the arm, or find what sets them; launch both arms from one recipe",
        )


def possible_confounders(pair: Pair) -> Iterator[Finding]:
    """Warn of possible confounders, in the order of the differences: the most influential first."""
    told = {RECIPE, *(item.key for items in pair.broken.values() for item in items)}
    told |= {item.key for item in _confounders(pair)}
    rest = [item for item in pair.differences if not item.declared and item.key not in told]
    if not rest or pair.measure.systems:
        return
    harmless = all(item.area is DifferenceArea.INCIDENTAL for item in rest)
    yield Finding(
        "RLX903",
        Severity.NOTE if harmless else Severity.WARNING,
        f"{pair.treatment.label} differs from {pair.control.label} in what no arm declares: {named(rest)}",
        "launch both arms from one recipe, at the same time, with the same seeds",
    )


def no_common_step(pair: Pair) -> Iterator[Finding]:
    if pair.step is None:
        # While a run is running, a common step may still be reached.
        same = "use the same eval.every in both arms; rlx compare --metric names another metric"
        severity, fix = (Severity.ERROR, same) if pair.finished else (Severity.NOTE, "wait for their end")
        steps = {arm.label: ", ".join(map(str, arm.series)) for arm in pair.arms}
        have = " and ".join(f"{label} has {f'it at {at}' if at else 'none'}" for label, at in steps.items())
        yield Finding(
            "RLX904",
            severity,
            f"no step at which both runs have {pair.metric}: {have}",
            fix,
        )


def one_seed(pair: Pair) -> Iterator[Finding]:
    if not pair.has_seeds:
        yield Finding("RLX905", Severity.NOTE, one_seed_words(pair), "launch both arms with several seeds")


def one_seed_words(pair: Pair) -> str:
    single = [arm.label for arm in pair.arms if len(arm.runs) == 1]
    which = ["one seed per arm" if len(single) == 2 else f"one seed of {single[0]}"] if single else []
    which += [arm.repeats_words for arm in pair.arms if arm.repeats]
    treatment = pair.treatment.label
    return (
        f"{'; '.join(which)}: a difference may come from the seed, so it says nothing about the treatment ({treatment})"
    )


def control_collapsed(pair: Pair) -> Iterator[Finding]:
    """Warn that the control collapsed. A treatment that collapses is a result, and gets no warning."""
    runs = pair.control.runs
    fell = {
        run.label: finding
        for run in runs
        for finding in run.verdict.findings
        if finding.id == "RLX895" and pair.step is not None and (finding.step or 0) <= pair.step
    }
    if fell:
        label, finding = next(iter(fell.items()))
        which = f"{len(fell)} of {len(runs)} runs of the control collapsed, first {label}" if len(runs) > 1 else label
        yield Finding(
            COLLAPSED,
            Severity.WARNING,
            f"{which}: {finding.message}; the difference at step {pair.step} is that from a failed training",
            "launch the control again, or name the collapse beside the difference",
            step=finding.step,
        )


def disputed_value(pair: Pair) -> Iterator[Finding]:
    """Object to two values of one validation: neither may be compared before it is known which one is right."""
    for run in pair.runs:
        if pair.step is not None and pair.step in run.disputed:
            one, other = run.disputed[pair.step]
            yield Finding(
                "RLX910",
                Severity.ERROR,
                f"{run.label} has two values at step {pair.step}: {one:.6g} and {other:.6g}",
                "rlx status -v says in which records; remove the one that is not this run's",
                step=pair.step,
            )


def named(differences: Sequence[ConfigDifference]) -> str:
    """Return the first few in words: `train.lr: 1e-06 → 2e-06; seed: 1 → 2 and 3 more`."""
    words = "; ".join(f"{item.key}: {brief(item.control)} → {brief(item.treatment)}" for item in differences[:_NAMED])
    return f"{words} and {len(differences) - _NAMED} more" if len(differences) > _NAMED else words


def brief(value: Any, limit: int = 60) -> str:
    """Return a value of a recipe on one line, cut at `limit` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _confounders(pair: Pair) -> list[ConfigDifference]:
    """Return the settings that differ undeclared and are not of the evaluation; none without recipes to declare them.

    Rules of earlier versions had a warning for them.
    """
    if not is_made("RLX932", pair.rules) or any(item.key == RECIPE for item in pair.differences):
        return []
    told = {item.key for items in pair.broken.values() for item in items}
    return [item for item in pair.differences if is_training_setting(item) and item.key not in told]


def _other_measurement(pair: Pair) -> Iterator[tuple[str, Any, Any]]:
    control, treatment = ({run.items.n for run in arm.runs if run.items.n} for arm in pair.arms)
    if control and treatment and len(control | treatment) > 1:
        yield "the size of the validation set", _listed(control), _listed(treatment)
    scales = {is_accuracy_above_one(pair.metric, run.series.values()) for run in pair.runs if run.series}
    if len(scales) > 1:
        yield f"the scale of {pair.metric}", _highest(pair.control), _highest(pair.treatment)
    metrics = [{run.core_metric for run in arm.runs if run.core_metric} for arm in pair.arms]
    if pair.step is None and all(metrics) and metrics[0].isdisjoint(metrics[1]):
        yield "the metric", _listed(metrics[0]), _listed(metrics[1])


def _highest(arm: ComparedArm) -> str:
    return f"values up to {max(value for run in arm.runs for value in (0.0, *run.series.values())):.4g}"


def _listed(values: Collection[object]) -> str:
    return " and ".join(sorted(map(str, values)))


def seed_findings(pair: Pair) -> tuple[Finding, ...]:
    """Return all findings about the two arms' seeds, in order of their ids."""
    # Also where whole systems are compared, the runs within one arm must be alike.
    within = replace(pair.measure, systems=False)
    unlike = (finding for arm in pair.arms for finding in unlike_runs(arm, within))
    checks = (same_seed_twice, excluded_seeds)
    of_arms = (finding for check in checks for arm in pair.arms for finding in check(arm))
    repeats = (finding for arm in pair.arms for finding in seeds_not_shown(arm))
    return (*unlike, *of_arms, *numbers_of_seeds(pair), *repeats, *trained_alike(pair))


def trained_alike(pair: Pair) -> Iterator[Finding]:
    """Object to runs that are equal to the last digit, with the cause that their times and ids tell.

    Runs of one seed may repeat each other on purpose: that they are no samples is said elsewhere (RLX908, RLX913).
    """
    arm_of = {run.label: arm for arm in pair.arms for run in arm.runs}
    seed_of = {run.label: run.seed for run in pair.runs}
    within = [equal for equal in pair.equal if arm_of[equal.one] is arm_of[equal.two]]
    copied = [equal for equal in pair.equal if equal.times is not Times.OWN or (equal in within and equal.same_ids)]
    if copied:
        first = copied[0]
        yield Finding(
            "RLX928",
            Severity.ERROR,
            f"{first.one} and {first.two} are one run: {first.words}{_more(copied)}",
            "find out which of the directories or logs holds the run that its name says, and launch the other again",
        )
    own = [equal for equal in pair.equal if equal not in copied]
    seeds = [equal for equal in own if equal in within and seed_of[equal.one] != seed_of[equal.two]]
    for arm in pair.arms:
        alike = [equal for equal in seeds if arm_of[equal.one] is arm]
        if alike and not arm.repeats:
            labels = list(dict.fromkeys(label for equal in alike for label in (equal.one, equal.two)))
            yield Finding(
                "RLX929",
                Severity.ERROR,
                f"the seed has no effect in {arm.label}: in {brief(', '.join(labels), 200)} {alike[0].words}, although "
                "their times differ; they count as one run",
                "pass the seed to what draws the data and the answers, and launch the seeds again",
            )
    if across := [equal for equal in own if equal not in within]:
        yield Finding(
            "RLX930",
            Severity.WARNING,
            f"the treatment has no effect on the training: in {across[0].one} and {across[0].two} {across[0].words}, "
            f"although their times differ{_more(across)}",
            "check with rlx show RECIPE that the keys of the arm change what they should",
        )


def _more(found: Sequence[EqualRuns]) -> str:
    return f"; and {len(found) - 1} more pairs" if len(found) > 1 else ""


def numbers_of_seeds(pair: Pair) -> Iterator[Finding]:
    """Warn where the test is known to err more often than it says: docs/dev/calibration.md has the figures."""
    control, treatment = (len(arm.runs) for arm in pair.arms)
    if pair.withheld or not pair.has_seeds:
        return
    errs = "the test finds a difference that is not there in up to {} % of cases, not in 5 %".format
    if control != treatment:
        seeds = f"{pair.control.label} has {control} seeds and {pair.treatment.label} {treatment}"
        message = f"{seeds}: where the smaller arm spreads more widely, {errs(9)}"
        yield Finding("RLX911", Severity.WARNING, message, "compare equal numbers of seeds: launch the missing ones")
    elif control == 2:
        message = f"two seeds per arm: where one arm spreads ten times as widely as the other, {errs(6.5)}"
        yield Finding("RLX911", Severity.WARNING, message, "launch three or more seeds per arm")


def unlike_runs(arm: ComparedArm, measure: Measure) -> Iterator[Finding]:
    """Object to runs of one arm that differ in what the arm changes, or in how they are evaluated."""
    if not arm.differences:
        return
    broken = any(item.declared or measure.condition_of(item) for item in arm.differences)
    yield Finding(
        "RLX907",
        Severity.ERROR if broken else Severity.WARNING,
        f"the runs of {arm.label} differ in more than their seed: {named(arm.differences)}",
        "launch all seeds of an arm together, from one recipe: rlx launch RECIPE --seed 1 2 3",
    )


def same_seed_twice(arm: ComparedArm) -> Iterator[Finding]:
    for seed, count in Counter(arm.seeds).items():
        if count > 1:
            ids = ", ".join(run.run_id for run in arm.runs if run.seed == seed)
            yield Finding(
                "RLX908",
                Severity.ERROR,
                f"{arm.label} has {count} runs with seed {seed}, which are not {count} samples: {ids}",
                "name one run of each seed",
            )


def seeds_not_shown(arm: ComparedArm) -> Iterator[Finding]:
    """Warn of runs that are repeats of one seed: their values stand, and no test takes them for several seeds."""
    if arm.repeats:
        yield Finding(
            "RLX913",
            Severity.WARNING,
            arm.repeats_words,
            "pass the seed to the trainer, so that the configuration that it prints has it; a recipe does that",
        )


def excluded_seeds(arm: ComparedArm) -> Iterator[Finding]:
    excluded = [run for run in arm.runs if run.is_excluded]
    if excluded and len(arm.runs) > 1:
        names = ", ".join(f"{run.label} is {run.verdict.word}" for run in excluded)
        others = ",".join(run.run_id for run in arm.runs if not run.is_excluded)
        alone = f"; to compare the others alone, for a reason that is not their values: {others}" if others else ""
        yield Finding(
            "RLX909",
            Severity.WARNING,
            f"{len(excluded)} of {len(arm.runs)} runs of {arm.label} are no result ({names}): the arm is excluded, "
            "because leaving a seed out afterwards biases the result",
            f"launch those seeds again; into a registered experiment only spare seeds enter{alone}",
        )


def unknown_evaluation(pair: Pair) -> Iterator[Finding]:
    """Warn of what only some of the runs recorded; where none did, nothing was lost between them: a note."""
    some = {condition: names for condition, names in pair.unrecorded.items() if len(names) < len(pair.runs)}
    for found, severity in ((some, Severity.WARNING), (pair.unrecorded.keys() - some.keys(), Severity.NOTE)):
        if found:
            words = "; ".join(
                _words(condition, some.get(condition, ())) for condition in Condition if condition in found
            )
            yield Finding(
                "RLX922",
                severity,
                f"not known to be the same in {pair.control.label} and {pair.treatment.label}: {words}",
                "launch both arms with this version of rlx, which records it when a run begins",
            )


def _words(condition: Condition, lacking: Sequence[str]) -> str:
    return (
        f"{condition} (no record of it in {', '.join(lacking)})"
        if lacking
        else f"{condition} (not recorded in any run)"
    )
