"""Compare the runs of arms: answer the registered question, then state what the named arms show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from rlx.api.runs import unheard
from rlx.errors import NoSuchRun, UsageError

if TYPE_CHECKING:
    from rlx.api.experiments import ExperimentAnswer
    from rlx.api.judged_comparison import Compared
    from rlx.api.runs import Run, Tell
    from rlx.compare.excluded_runs import ExcludedRun
    from rlx.evidence import JudgedRun
    from rlx.runs import Index, RunRef

    Arm = tuple[RunRef, ...]
    Runs = Sequence[RunRef]

_MOST = 6
_FINISHED, _GOING, _ENDED = range(3)
"""What is known of some runs: all have finished, some may still finish, some ended otherwise."""


def compare(
    control: Run | Sequence[Run],
    *treatments: Run | Sequence[Run],
    metric: str | None = None,
    seeds: Collection[int] = (),
    systems: bool = False,
    tell: Tell = unheard,
) -> Compared:
    """Compare treatment arms with the control at the last step at which all their runs were validated.

    An arm is its name (all its runs in the newest launch in which all of these arms have finished, one a seed), a
    run, or several runs. `metric` is a name or a part of it, by default the validation metric of the log; shares
    are compared in points. `systems`: compare whole systems, such as two models, whose differences are listed and
    none credited, as the runs of an experiment of that kind are; their evaluation must be equal all the same. `tell`
    receives each note at once. Raises NoSuchRun,
    UsageError for names that mean several arms, one run twice or runs of several launches, RlxError (exit code 11
    or 14) where the runs have no metric in common.
    """
    from rlx.api.runs import arm_name, open_index

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
    """Compare the arms that the names mean, control first: select, judge, question, contrast, words.

    `tell` receives which runs were selected. Raises what `rlx.compare.compare` raises.
    """
    selected = select(index, names, select_arms(index, names, seeds, tell), tell)
    judged = judge(index, selected, tell)
    question = registered_question(index, selected, judged, tell)
    compared = contrast(index, selected, judged, question, metric, tell, systems)
    return with_words(index, compared, selected, judged)


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs of each arm, control first, and the runs of their experiments that are left out."""

    arms: Sequence[tuple[RunRef, ...]]
    left_out: tuple[ExcludedRun, ...]


def select(index: Index, names: Sequence[str], arms: Sequence[Sequence[RunRef]], tell: Tell) -> Selection:
    """Select the runs of these arms that have records; tell which of them were removed."""
    from rlx.api.judged_comparison import excluded_runs, without_lost_records
    from rlx.api.runs import removal_notes
    from rlx.compare.excluded_runs import ExcludedBy

    kept, gone = without_lost_records(index, arms, tell)
    for note in removal_notes(index, chain(*kept)):
        tell(note)
    left_out = (
        replace(run, by=ExcludedBy.REMOVAL, why="its records are gone") if run.run_id in gone else run
        for run in excluded_runs(index, names, kept)
    )
    return Selection(kept, tuple(left_out))


def judge(index: Index, selected: Selection, tell: Tell) -> list[Sequence[JudgedRun]]:
    """Judge all runs, those of treatments beside the control run with their seed; tell where the control is another."""
    from rlx.api.judged_comparison import beside_control, judged_arms

    judged = judged_arms(index, selected.arms, tell)
    control, treatments = judged[0][0], [runs[0].arm for runs in judged[1:]]
    if control.plan.control != control.arm and control.plan.control in treatments:
        tell(f"{control.arm} is the control here; its recipe declares {control.plan.control}")
    return beside_control(index, judged)


@dataclass(frozen=True, slots=True)
class RegisteredQuestion:
    """The registered question of the compared runs; `answer` is None where they are not of exactly one experiment.

    `withheld`: why no test of these runs is shown yet; "" where one may be.
    """

    answer: ExperimentAnswer | None
    withheld: str


def registered_question(
    index: Index, selected: Selection, judged: Sequence[Sequence[JudgedRun]], tell: Tell
) -> RegisteredQuestion:
    """Find and answer the experiment that the runs are registered for; tell where there is none, or not one for all."""
    from rlx.api.experiments import answered

    runs = [*chain(*judged)]
    found = answered(index, runs, tell)
    withheld = next((each.result.withheld for each in found if each.result.withheld), "")
    if len(found) == 1 and all(run.plan.registration for run in runs):
        return RegisteredQuestion(found[0], withheld)
    if found:
        tell(
            "not all of these runs are of one registered experiment, so this comparison answers no registered question"
        )
    else:
        _tell_registered_otherwise(index, {ref.name: ref.created for ref in chain(*selected.arms)}, tell)
    return RegisteredQuestion(None, withheld)


def contrast(
    index: Index,
    selected: Selection,
    judged: Sequence[Sequence[JudgedRun]],
    question: RegisteredQuestion,
    metric: str | None,
    tell: Tell,
    systems: bool = False,
) -> Compared:
    """Compare the judged arms, by default on the primary metric of their experiment, whose answer stands beside it."""
    from rlx.api.judged_comparison import compare_judged
    from rlx.evidence.metrics import metric_names

    if question.answer is None:
        return compare_judged(index, selected.arms, judged, metric, tell, question.withheld, systems)
    result, of_experiment = question.answer.result, question.answer.compared
    primary, declared = result.registration.metric, result.registration.is_of_systems
    systems = systems or declared
    arms = [{ref.run_id for ref in arm} for arm in selected.arms]
    compared = of_experiment if systems == declared and metric in (None, primary) else None
    if compared is None or [{run.run_id for run in arm.runs} for arm in compared.comparison.arms] != arms:
        is_logged = any(primary in metric_names(run.evidence) for run in chain(*judged))
        wanted = metric or (primary if is_logged else None)
        compared = compare_judged(index, selected.arms, judged, wanted, tell, question.withheld, systems)
    return replace(compared, comparison=replace(compared.comparison, registered=result))


def with_words(
    index: Index, compared: Compared, selected: Selection, judged: Sequence[Sequence[JudgedRun]]
) -> Compared:
    """Add what every form of the comparison states beside it: related experiments, and the runs that are left out."""
    from rlx.api.judged_comparison import with_related_experiments

    comparison = with_related_experiments(index, compared.comparison, [*chain(*judged)])
    return replace(compared, comparison=replace(comparison, left_out=selected.left_out))


def _tell_registered_otherwise(index: Index, launched: Mapping[str, float], tell: Tell) -> None:
    """Tell of experiments of these names that the runs, launched at those times, do not belong to."""
    from rlx.runs.index.registrations import read_registrations
    from rlx.runs.run import utc_text

    for one in read_registrations(index.home):
        if one.name in launched:
            after = (
                "after these runs were launched" if utc_text(launched[one.name]) < one.registered else "without them"
            )
            when = f"was registered {one.registered}, {after}"
            tell(f"experiment {one.short} of {one.name} {when}: they do not belong to it")


def select_arms(index: Index, names: Sequence[str], seeds: Collection[int], tell: Tell) -> list[Arm]:
    """Return the runs of each name, with one of `seeds` if any are given; tells from which launch they are.

    A name is an arm, a run name or id, or several of them with commas, which then are one arm. Names that are no ids
    mean runs of one launch (`from_one_group`). Raises NoSuchRun and UsageError where a name means no run, several arms,
    a run that another name means, too, or runs of several launches between which nothing decides.
    """
    from rlx.runs.index.resolve import resolve

    found = [resolve(index, name.split(",")) for name in names]
    arms = [_arm(*each, seeds) for each in zip(from_one_group(index, names, found, seeds, tell), names, strict=True)]
    for note in _notes(names, arms):
        tell(note)
    chosen = list(chain.from_iterable(arms))
    for ref in chosen:
        if chosen.count(ref) > 1:
            raise UsageError(f"{ref.run_id} is named twice", "name runs that can differ")
    return arms


def _notes(names: Sequence[str], arms: Sequence[Arm]) -> Iterator[str]:
    """Yield a note where the arms were launched separately."""
    launches = [dict.fromkeys(ref.launch_id for ref in arm) for arm in arms]
    if len({ref.group_id for ref in chain.from_iterable(arms)}) > 1:
        yield "launched apart: " + ", ".join(
            f"{name} in {' and '.join(ids)}" for name, ids in zip(names, launches, strict=True)
        )


def _arm(found: Sequence[RunRef], name: str, seeds: Collection[int]) -> Arm:
    fitting = tuple(sorted((ref for ref in found if not seeds or ref.seed in seeds), key=lambda ref: ref.seed))
    if missing := [str(seed) for seed in seeds if all(ref.seed != seed for ref in found)]:
        raise NoSuchRun(f"{name} has no run with seed {' or '.join(missing)}", f"there is: {_listed(found)}")
    if len({ref.arm for ref in fitting}) > 1:
        raise UsageError(f"{name} means runs of several arms: {_listed(fitting)}", "name one arm, or runs of one")
    return fitting


def _listed(refs: Sequence[RunRef], most: int = 8) -> str:
    more = f" and {len(refs) - most} more" if len(refs) > most else ""
    return ", ".join(ref.run_id for ref in refs[:most]) + more


def from_one_group(
    index: Index, names: Sequence[str], found: Sequence[Runs], seeds: Collection[int], tell: Tell
) -> list[Runs]:
    """Return the runs of each name in the newest group in which all names have runs, with these seeds, that have
    finished.

    `found`: the runs of each name alone; those of an id or a list stay. A run on another host that was not seen to
    end may have finished: no host is asked. Without such a group each name means its only group, or the only one whose
    runs have finished, or else still may. Raises UsageError where that leaves a choice, or runs of several experiments.
    """
    from rlx.api.judged_comparison import known_states
    from rlx.runs.index.resolve import called, named_runs, without_superseded

    refs = named_runs(index)
    meant = [without_superseded(called(refs, name)) for name in names]
    options = [_with_seeds(runs, seeds) for runs in meant if runs]
    every = dict.fromkeys(chain(*options))
    if len({ref.group_id for ref in chain(*meant)}) < 2 or not all(options):
        return list(found)
    fixed = [*chain(*(own for own, runs in zip(found, meant, strict=True) if not runs))]
    states, keys = known_states(index, [*every]), _group_keys(index, [*every, *fixed])
    pinned = {keys[ref.run_id] for ref in fixed}
    groups: dict[str, list[RunRef]] = {keys[ref.run_id]: [] for ref in refs if ref in every}
    for ref in every:
        groups[keys[ref.run_id]].append(ref)
    ready = ((key, _finished_in([_in(key, keys, runs) for runs in options], states)) for key in groups)
    taken, arms = next(((key, arms) for key, arms in ready if arms and pinned <= {key}), ("", None))
    if arms and len(groups) > 1:
        others = [runs for key, runs in groups.items() if key != taken]
        tell(f"taken: {_words(groups[taken], states)}; not taken: {_groups_listed(others, states)}")
    named = [name for name, runs in zip(names, meant, strict=True) if runs]
    arms = arms or _only_way(named, options, keys, states)
    if arms is None:
        raise UsageError(
            f"{' and '.join(named)}: several launches have runs of these names, and none has finished runs of all of "
            f"them: {_groups_listed([*groups.values()], states)}",
            "name the runs of each arm by their ids, joined by commas (rlx status LAUNCH shows them), or take a launch "
            "out of names (rlx rm LAUNCH)",
        )
    chosen = iter(arms)
    return [next(chosen) if runs else own for own, runs in zip(found, meant, strict=True)]


def _with_seeds(runs: Runs, seeds: Collection[int]) -> Runs:
    """Return the runs with these seeds, of the launches that have each of them."""
    have: dict[str, set[int]] = {}
    for ref in runs:
        have.setdefault(ref.group_id, set()).add(ref.seed)
    return [ref for ref in runs if not seeds or (ref.seed in seeds and have[ref.group_id] >= {*seeds})]


def _group_keys(index: Index, refs: Sequence[RunRef]) -> Mapping[str, str]:
    """Return the group of each run by its id: the experiment that its manifest here is registered for, else its
    launch, or the name of its script.
    """
    from rlx.runs import read_manifest
    from rlx.runs.copies.mirror import kept

    copies = kept(index, refs)
    plans = {run_id: manifest.plan for run_id, copy in copies.items() if (manifest := read_manifest(copy.run_dir))}
    asked = {run_id: plan.registration.content for run_id, plan in plans.items() if plan.registration}
    return {ref.run_id: asked.get(ref.run_id, ref.group_id) for ref in refs}


def _in(key: str, keys: Mapping[str, str], runs: Runs) -> Runs:
    return [ref for ref in runs if keys[ref.run_id] == key]


def _finished_in(options: Sequence[Runs], states: Mapping[str, str]) -> list[Runs] | None:
    """Return the runs of each name in the newest launch that has them all finished, else in the newest launch of each
    name.
    """
    launches = dict.fromkeys(ref.group_id for ref in chain(*options))
    together = [[_of_launch(runs, launch) for runs in options] for launch in launches]
    apart = [_newest(runs) for runs in options]
    arms = (each for each in (*together, apart) if all(each))
    return next((each for each in arms if _rank(chain(*each), states) == _FINISHED), None)


def _only_way(
    names: Sequence[str], options: Sequence[Runs], keys: Mapping[str, str], states: Mapping[str, str]
) -> list[Runs] | None:
    """Return the runs of each name in its only group of the best rank.

    None where it has several, and where names that do not name their experiment are of several.
    """
    arms: list[Runs] = []
    for runs in options:
        own = [_newest(_in(key, keys, runs)) for key in dict.fromkeys(keys[ref.run_id] for ref in runs)]
        ranks = [_rank(each, states) for each in own]
        if ranks.count(min(ranks)) > 1:
            return None
        arms.append(own[ranks.index(min(ranks))])
    bare = (runs for name, runs in zip(names, arms, strict=True) if name in (runs[0].arm, runs[0].short_name))
    return arms if len({ref.name for ref in chain(*bare)}) < 2 else None


def _of_launch(runs: Runs, group_id: str) -> Runs:
    return [ref for ref in runs if ref.group_id == group_id]


def _newest(runs: Runs) -> Runs:
    return _of_launch(runs, runs[0].group_id) if runs else ()


def _rank(runs: Iterable[RunRef], states: Mapping[str, str]) -> int:
    from rlx.model import RunState

    def rank(ref: RunRef) -> int:
        state = RunState(states.get(ref.run_id) or RunState.UNREACHABLE)
        if state is RunState.FINISHED or not (state.is_terminal or ref.place.is_local):
            return _FINISHED
        return _ENDED if state.is_terminal else _GOING

    return max(map(rank, runs))


def _groups_listed(groups: Sequence[Runs], states: Mapping[str, str]) -> str:
    more = f" and {len(groups) - _MOST} more" if len(groups) > _MOST else ""
    return "; ".join(_words(runs, states) for runs in groups[:_MOST]) + more


def _words(runs: Runs, states: Mapping[str, str]) -> str:
    """`20261120-120000-abcdef of gsm8k, launched 2026-11-20 12:00:00 (baseline finished, fast failed)`."""
    from rlx.api.judged_comparison import moment

    launches = " and ".join(dict.fromkeys(ref.launch_id for ref in runs))
    seen = dict.fromkeys(f"{ref.arm} {states.get(ref.run_id) or 'never seen'}" for ref in runs)
    return f"{launches} of {runs[0].name}, launched {moment(runs[0].created)} ({', '.join(seen)})"
