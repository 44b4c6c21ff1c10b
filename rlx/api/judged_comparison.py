"""Judge the runs of arms and compare them; find the runs and experiments that a comparison leaves out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.runs import Tell
    from rlx.compare import Comparison
    from rlx.compare.excluded_runs import ExcludedBy, ExcludedRun, RelatedExperiment
    from rlx.errors import ExitCode
    from rlx.evidence import ItemScores, JudgedRun
    from rlx.model import LaunchPlan
    from rlx.runs import Index, RunRef

    Reason = tuple[ExcludedBy, str]


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison with what it was made of. `items`: scores per item by step and run id.

    `notes`: which runs were selected, and from which launches.
    """

    comparison: Comparison
    runs: Sequence[JudgedRun]
    items: Mapping[int, Mapping[str, ItemScores]]
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the sentences of each treatment against the control, in their order."""
        return tuple(sentence for contrast in self.comparison.contrasts for sentence in contrast.sentences)

    @property
    def left_out(self) -> tuple[ExcludedRun, ...]:
        """Every run of the same experiment that is not compared, with who left it out and when it was launched."""
        return self.comparison.left_out

    @property
    def others(self) -> tuple[RelatedExperiment, ...]:
        """Return the related experiments."""
        return self.comparison.others

    @property
    def reportable(self) -> bool:
        """Tell whether the claim may be reported: all runs finished, all are valid, and they are comparable."""
        return self.comparison.reportable

    def outcome(self, *, allow_unverified: bool = False) -> ExitCode:
        """Return the exit code of `rlx compare`, with or without its option `--allow-unverified`."""
        return self.comparison.outcome(allow_unverified=allow_unverified)


@dataclass(frozen=True, slots=True)
class Uncompared:
    """Runs that cannot be compared, and why. `exit_code`: that of the problem."""

    runs: Sequence[JudgedRun]
    problem: str
    exit_code: ExitCode
    left_out: tuple[ExcludedRun, ...] = ()
    others: tuple[RelatedExperiment, ...] = ()

    def outcome(self, *, allow_unverified: bool = False) -> ExitCode:
        """Return the exit code of `rlx report`: nothing can be reported, whatever is allowed."""
        return self.exit_code


def judged_arms(index: Index, refs: Sequence[Sequence[RunRef]], tell: Tell) -> list[list[JudgedRun]]:
    """Judge the runs of each arm, each for itself; tells of which the host could not be asked."""
    from rlx.runs.judging.judge_runs import judge_runs

    judged = judge_runs(index, [*chain(*refs)])
    for run in judged:
        if run.as_of is not None:
            end = ", made after its end" if run.state.is_terminal else ""
            tell(f"{run.run_id}: its host cannot be queried; from the copy of {moment(run.as_of)}{end}")
    runs = iter(judged)
    return [[next(runs) for _ in arm] for arm in refs]


def beside_control(index: Index, judged: Sequence[Sequence[JudgedRun]]) -> list[Sequence[JudgedRun]]:
    """Judge the runs of treatments again beside the control run with their seed; the same arms, control first."""
    from rlx.compare import same_seed
    from rlx.runs.judging.judge_runs import judge_beside

    control, *treatments = judged
    judged_again = iter(judge_beside(index, [(same_seed(control, [run])[0], run) for run in chain(*treatments)]))
    return [control, *([next(judged_again) for _ in arm] for arm in treatments)]


def compare_judged(
    index: Index,
    refs: Sequence[Sequence[RunRef]],
    judged: Sequence[Sequence[JudgedRun]],
    metric: str | None,
    tell: Tell,
    withheld: str = "",
    systems: bool = False,
) -> Compared:
    """Compare judged arms, for which outputs per item are read, and fetched where they are remote.

    `withheld`: why no test of them is shown yet. `systems`: compare whole systems.
    """
    from rlx.compare import compare as compare_arms
    from rlx.compare import other_sources, outputs_to_read
    from rlx.runs import items_of

    control, *treatments = judged
    chosen, wanted = outputs_to_read(control, treatments, metric)
    if others := other_sources(chain(*judged), chosen):
        tell(f"{chosen} is of one data source; --metric names the others: {', '.join(others)}")
    items = {
        step: items_of(
            index,
            [ref for ref in chain(*refs) if ref.run_id in ids],
            step,
            chosen,
            lambda problem: tell(f"not compared item by item: {problem}"),
        )
        for step, ids in wanted.items()
    }
    comparison = compare_arms(control, treatments, chosen, items, withheld, systems)
    # The outputs may have contradicted a run's log: what is shown of it must say so, too.
    verdicts = {run.run_id: run.verdict for run in comparison.runs}
    return Compared(comparison, [replace(run, verdict=verdicts[run.run_id]) for run in chain(*judged)], items)


def moment(epoch: float) -> str:
    """Return a point in time as text, in the time zone of this machine."""
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(epoch))


def excluded_runs(index: Index, names: Sequence[str], arms: Sequence[Sequence[RunRef]]) -> tuple[ExcludedRun, ...]:
    """Return every run in the index with the name of a compared experiment that is in none of `arms`, the oldest first.

    A removed run is one of them: removing a run does not improve a result.

    `names` are the words that meant the arms; none where the newest launch was taken as a whole. The states of runs on
    other hosts are those that were seen last: no host is asked for them.
    """
    from rlx.compare.excluded_runs import ExcludedRun

    refs, compared = index.runs(), [*chain(*arms)]
    taken, experiments = {ref.run_id for ref in compared}, {ref.name for ref in compared}
    others = [ref for ref in refs if ref.name in experiments and ref.run_id not in taken]
    states, reason = known_states(index, others), _reasons(index, names, compared)
    found = []
    for ref in others:
        state, (by, why) = states.get(ref.run_id, ""), reason(ref)
        found.append(ExcludedRun(ref.run_id, ref.name, ref.arm, ref.seed, state, ref.launch_id, ref.created, by, why))
    return tuple(sorted(found, key=lambda run: (run.launched, run.launch_id, run.arm, run.seed)))


def without_lost_records(
    index: Index, arms: Sequence[Sequence[RunRef]], tell: Tell
) -> tuple[list[tuple[RunRef, ...]], frozenset[str]]:
    """Drop the runs of a registered experiment whose records are gone; return the arms and the ids of these runs.

    They count as failed, and the answer says so. The arms are returned unchanged if no run is registered, or if an arm
    would be empty: to judge them then raises an error, since it is not known what the missing runs were.
    """
    from rlx.runs.copies.mirror import kept
    from rlx.runs.manifest import read_manifest
    from rlx.runs.status.judged_snapshots import judged_snapshots

    refs = [*chain(*arms)]
    copies = kept(index, refs)
    manifests = {ref.run_id: read_manifest(copies[ref.run_id].run_dir) for ref in refs}
    suspects = [ref for ref in refs if manifests[ref.run_id] is None]
    is_registered = any(found and found.plan.registration for found in manifests.values())
    if not suspects or not is_registered:
        return [tuple(arm) for arm in arms], frozenset()
    rows = judged_snapshots(index, suspects)
    # The expectations come with the manifest; without it, and after the end, nothing can restore the records.
    gone = frozenset(row.ref.run_id for row in rows if row.expectations is None and row.state.is_terminal)
    rest = [tuple(ref for ref in arm if ref.run_id not in gone) for arm in arms]
    if not all(rest):
        return [tuple(arm) for arm in arms], frozenset()
    for run_id in sorted(gone):
        tell(f"{run_id}: its records are gone, and it counts as failed")
    return rest, gone


def _reasons(index: Index, names: Sequence[str], compared: Sequence[RunRef]) -> Callable[[RunRef], Reason]:
    """Return the function that gives the reason why a run was left out."""
    from rlx.compare.excluded_runs import ExcludedBy
    from rlx.runs.index.resolve import called, meant_by, named_runs, removed_runs

    hidden_runs, refs, removed = index.hidden_runs(), named_runs(index), removed_runs(index)
    by_id = [name for name in names if not called(refs, name)]
    meant = {ref.run_id for name in by_id for ref in meant_by(name.split(","), refs, removed)}
    groups, arms = {ref.group_id for ref in compared}, {ref.arm for ref in compared}
    taken = {(ref.launch_id, ref.arm) for ref in compared}
    slots = {(ref.group, ref.arm, ref.seed) for ref in compared if ref.group}
    newest = max((ref.created for ref in compared), default=0.0)

    def reason(ref: RunRef) -> Reason:
        if (hidden := hidden_runs.get(ref.run_id)) is not None:
            return ExcludedBy.REMOVAL, hidden.sentence
        # A name that would mean this run, too, if its launch were the only one.
        is_called = any(name in (ref.arm, ref.run_name, ref.short_name, ref.name) for name in names)
        if (is_called or not names) and (ref.group, ref.arm, ref.seed) in slots:
            return ExcludedBy.NEWEST_LAUNCH, "its arm and seed have a newer run"
        if ref.run_id in meant or (is_called and (ref.launch_id, ref.arm) in taken):
            return ExcludedBy.COMMAND_LINE, "--seed does not name it"
        if not names and ref.group_id in groups:
            return ExcludedBy.COMMAND_LINE, "--seed does not name it"
        if names and is_called and ref.created > newest:
            return ExcludedBy.ONE_LAUNCH, "in its launch not all of these arms have finished"
        if not names or is_called:
            return ExcludedBy.NEWEST_LAUNCH, "it is of an earlier one"
        what = "other runs" if ref.arm in arms else "other arms"
        return ExcludedBy.COMMAND_LINE, f"it names {what}"

    return reason


def known_states(index: Index, refs: Sequence[RunRef]) -> dict[str, str]:
    """Return the states of runs by id: now of those here, as last seen of others; none of those never seen."""
    from rlx.runs.status.snapshots import take_snapshots

    here = [ref for ref in refs if ref.place.is_local]
    seen = {run_id: sight.state.value for run_id, sight in take_snapshots(index, here).items()}
    known = index.cached_states([ref.run_id for ref in refs if not ref.place.is_local])
    seen |= {run_id: cached.observation.state.value for run_id, cached in known.items()}
    # The end of a deleted run is only known from its record.
    return seen | {run_id: each.state for run_id, each in index.hidden_runs().items() if each.deleted}


def with_related_experiments(index: Index, found: Comparison, judged: Sequence[JudgedRun]) -> Comparison:
    """Add the experiments with other names whose model, data and kind of treatment are those of the compared runs.

    The kind of a treatment is the section of the recipe that it changes. Runs count whose manifest is on this machine:
    no host is asked, and runs without a recipe are of no kind.
    """
    from time import gmtime, strftime

    from rlx.compare.excluded_runs import RelatedExperiment
    from rlx.runs import read_manifest
    from rlx.runs.copies.mirror import kept

    names, kinds = {run.plan.name for run in judged}, set().union(*(_kinds(run.plan) for run in judged))
    subjects = {_subject(run.plan) for run in judged}
    refs = [ref for ref in index.runs() if ref.name not in names] if kinds else []
    copies = kept(index, refs)
    alike: dict[str, list[tuple[RunRef, LaunchPlan]]] = {}
    for ref in refs:
        manifest = read_manifest(copies[ref.run_id].run_dir)
        if manifest is not None and kinds & _kinds(manifest.plan) and _subject(manifest.plan) in subjects:
            alike.setdefault(ref.name, []).append((ref, manifest.plan))
    others = tuple(
        RelatedExperiment(
            name,
            len(runs),
            tuple(dict.fromkeys(ref.arm for ref, _ in runs)),
            tuple(dict.fromkeys(plan.registration.short for _, plan in runs if plan.registration)),
            (days[0], days[-1]),
        )
        for name, runs in sorted(alike.items())
        if (days := [strftime("%Y-%m-%d", gmtime(created)) for created in sorted(ref.created for ref, _ in runs)])
    )
    return replace(found, treatment_kind=", ".join(sorted(kinds)), others=others)


def _kinds(plan: LaunchPlan) -> set[str]:
    return {key.partition(".")[0] for key in plan.treatment if plan.has_recipe} - {"seed"}


def _subject(plan: LaunchPlan) -> tuple[Any, ...]:
    """Return model and data, as far as the recipe states them."""
    sections = (plan.recipe.get(name) for name in ("model", "data"))
    model, data = (section if isinstance(section, dict) else {} for section in sections)
    return model.get("path"), data.get("train"), data.get("val")
