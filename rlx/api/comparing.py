"""Compare the runs of some arms: answer the question that was registered, then say what the arms named show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from rlx.api.telling import unheard

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared
    from rlx.api.selection import Run
    from rlx.api.telling import Tell
    from rlx.compare.left_out import LeftOut
    from rlx.evidence import JudgedRun
    from rlx.runs import Index, RunRef


def compare(
    control: Run | Sequence[Run],
    *treatments: Run | Sequence[Run],
    metric: str | None = None,
    seeds: Collection[int] = (),
    systems: bool = False,
    tell: Tell = unheard,
) -> Compared:
    """Hold treatment arms against the control at the last step at which all their runs were validated.

    An arm is its name (all its runs in the newest launch in which all of these arms have finished, one a seed), a
    run, or several runs. `metric` is a name or a part of it, by default the validation metric of the log; shares
    are compared in points. `systems`: compare whole systems, such as two models, whose differences are listed and
    none credited, as the runs of an experiment of that kind are; their evaluation must be equal all the same. `tell`
    hears each note at once. Raises NoSuchRun,
    UsageError for names that mean several arms, one run twice or runs of several launches, RlxError (exit code 11
    or 14) where the runs have no metric in common.
    """
    from rlx.api.selection import arm_name, open_index

    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        tell(text)

    names = [arm_name(arm) for arm in (control, *treatments)]
    compared = compare_named(open_index(), names, metric, seeds, note, systems)
    return replace(compared, notes=tuple(notes))


def compare_named(
    index: Index, names: Sequence[str], metric: str | None, seeds: Collection[int], tell: Tell, systems: bool = False
) -> Compared:
    """Compare the arms that the names mean, control first; tells which runs were taken."""
    from rlx.api.arm_names import select_arms
    from rlx.api.left_out import left_out_runs, with_records, without_records
    from rlx.api.removing import removal_notes

    refs, gone = with_records(index, select_arms(index, names, seeds, tell), tell)
    for note in removal_notes(index, chain(*refs)):
        tell(note)
    return with_left_out(
        compare_refs(index, refs, metric, tell, systems), without_records(left_out_runs(index, names, refs), gone)
    )


def with_left_out(compared: Compared, left_out: tuple[LeftOut, ...]) -> Compared:
    """Add the runs that are not compared to the comparison, whose every form shows them."""
    return replace(compared, comparison=replace(compared.comparison, left_out=left_out))


def compare_refs(
    index: Index, refs: Sequence[Sequence[RunRef]], metric: str | None, tell: Tell, systems: bool = False
) -> Compared:
    """Compare these arms, control first. Raises what `rlx.compare.compare` raises."""
    from rlx.api.judged_comparison import beside_control, judged_arms

    judged = judged_arms(index, refs, tell)
    _tell_swapped(judged, tell)
    return compare_asked(index, refs, beside_control(index, judged), metric, tell, systems)


def compare_asked(
    index: Index,
    refs: Sequence[Sequence[RunRef]],
    judged: Sequence[Sequence[JudgedRun]],
    metric: str | None,
    tell: Tell,
    systems: bool = False,
) -> Compared:
    """Compare judged arms, control first, beside what the experiment that they are registered for answers.

    Without a metric its primary one is compared. While a run of it may still come in, no test of its runs is shown.
    """
    from rlx.api.left_out import with_other_experiments

    compared = _compare_asked(index, refs, judged, metric, tell, systems)
    return replace(compared, comparison=with_other_experiments(index, compared.comparison, [*chain(*judged)]))


def _compare_asked(
    index: Index,
    refs: Sequence[Sequence[RunRef]],
    judged: Sequence[Sequence[JudgedRun]],
    metric: str | None,
    tell: Tell,
    systems: bool,
) -> Compared:
    from rlx.api.judged_comparison import compare_judged
    from rlx.api.registered import answered
    from rlx.evidence.metrics import metric_names

    runs = [*chain(*judged)]
    found = answered(index, runs, tell)
    withheld = next((each.result.withheld for each in found if each.result.withheld), "")
    if len(found) != 1 or not all(run.plan.registration for run in runs):
        if not found:
            _tell_registered_otherwise(index, {ref.name: ref.created for ref in chain(*refs)}, tell)
        else:
            tell("not all of these runs are of one registered experiment: what follows answers no registered question")
        return compare_judged(index, refs, judged, metric, tell, withheld, systems)
    (only,) = found
    primary, declared = only.result.registration.metric, only.result.registration.is_of_systems
    systems = systems or declared
    if only.compared and systems == declared and metric in (None, primary) and _are_its_arms(only.compared, refs):
        compared = only.compared
    else:
        wanted = metric or (primary if any(primary in metric_names(run.evidence) for run in runs) else None)
        compared = compare_judged(index, refs, judged, wanted, tell, withheld, systems)
    return replace(compared, comparison=replace(compared.comparison, registered=only.result))


def _tell_registered_otherwise(index: Index, launched: Mapping[str, float], tell: Tell) -> None:
    """Tell of experiments of these names that the runs, launched at those times, do not belong to."""
    from rlx.runs.index.registrations import read_registrations
    from rlx.runs.run import utc_text

    for one in read_registrations(index.home):
        if one.name in launched:
            after = (
                "after these runs were launched" if utc_text(launched[one.name]) < one.registered else "without them"
            )
            tell(f"experiment {one.short} of {one.name} was registered {one.registered}, {after}: it is none of theirs")


def _are_its_arms(compared: Compared, refs: Sequence[Sequence[RunRef]]) -> bool:
    """Tell whether the arms that were named are those of the experiment, in its order."""
    return [{run.run_id for run in arm.runs} for arm in compared.comparison.arms] == [
        {ref.run_id for ref in arm} for arm in refs
    ]


def _tell_swapped(judged: Sequence[Sequence[JudgedRun]], tell: Tell) -> None:
    control, treatments = judged[0][0], [runs[0].arm for runs in judged[1:]]
    if control.plan.control != control.arm and control.plan.control in treatments:
        tell(f"{control.arm} stands as the control here; by its recipe {control.plan.control} is")
