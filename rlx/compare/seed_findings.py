"""Find what speaks against the runs of the arms as samples of their seeds; one function an id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rlx.compare.compared_arms import ComparedArm
from rlx.compare.comparison_values import Pair
from rlx.compare.equal_runs import EqualRuns, Times
from rlx.compare.evaluation_conditions import Measure
from rlx.compare.findings import brief, named
from rlx.model import Finding, Severity


def seed_findings(pair: Pair) -> tuple[Finding, ...]:
    """All findings about the two arms' seeds, in order of their ids."""
    # Two systems may differ in what the runs of one may not.
    within = replace(pair.measure, systems=False)
    unlike = (finding for arm in pair.arms for finding in unlike_runs(arm, within))
    checks = (same_seed_twice, seed_struck)
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
                f"the seed has no effect in {arm.label}: {brief(', '.join(labels), 200)} count as one run, "
                f"for {alike[0].words}, in times of their own",
                "pass the seed to what draws the data and the answers, and launch the seeds again",
            )
    if across := [equal for equal in own if equal not in within]:
        yield Finding(
            "RLX930",
            Severity.WARNING,
            f"the treatment has no effect on the training: {across[0].one} and {across[0].two} are alike, for "
            f"{across[0].words}, in times of their own{_more(across)}",
            "check that the arm's keys change what they mean to (rlx show RECIPE)",
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
        message = f"two seeds an arm: where one arm spreads ten times as widely as the other, {errs(6.5)}"
        yield Finding("RLX911", Severity.WARNING, message, "three seeds an arm, or more")


def unlike_runs(arm: ComparedArm, measure: Measure) -> Iterator[Finding]:
    """Runs that differ in what the arm is there to change, or in how they are evaluated, are not one arm."""
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


def seed_struck(arm: ComparedArm) -> Iterator[Finding]:
    struck = [run for run in arm.runs if run.struck]
    if struck and len(arm.runs) > 1:
        names = ", ".join(f"{run.label} is {run.verdict.word}" for run in struck)
        others = ",".join(run.run_id for run in arm.runs if not run.struck)
        alone = f"; to compare the others alone, for a reason that is not their values: {others}" if others else ""
        yield Finding(
            "RLX909",
            Severity.WARNING,
            f"{len(struck)} of {len(arm.runs)} runs of {arm.label} are no result ({names}): the arm is struck, "
            "for a seed left out afterwards is a seed chosen",
            f"launch those seeds again; into a registered experiment only spare seeds enter{alone}",
        )
