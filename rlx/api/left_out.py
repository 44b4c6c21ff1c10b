"""Find what stands beside a comparison: runs of its experiments that are left out, and experiments of the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.compare import Comparison
    from rlx.compare.left_out import LeftOut, LeftOutBy
    from rlx.evidence import JudgedRun
    from rlx.model import LaunchPlan
    from rlx.runs import Index, RunRef

    Reason = tuple[LeftOutBy, str]


def left_out_runs(index: Index, names: Sequence[str], arms: Sequence[Sequence[RunRef]]) -> tuple[LeftOut, ...]:
    """Every run in the index with the name of a compared experiment that is in none of `arms`, the oldest first.

    A run that somebody removed is one of them: removing it makes no result better.

    `names` are the words that meant the arms; none where the newest launch was taken as a whole. The states of runs on
    other hosts are those that were seen last: no host is asked for them.
    """
    from rlx.compare.left_out import LeftOut

    refs, compared = index.runs(), [*chain(*arms)]
    taken, experiments = {ref.run_id for ref in compared}, {ref.name for ref in compared}
    others = [ref for ref in refs if ref.name in experiments and ref.run_id not in taken]
    states, reason = known_states(index, others), _reasons(index, names, compared)
    found = [
        LeftOut(
            ref.run_id,
            ref.name,
            ref.arm,
            ref.seed,
            states.get(ref.run_id, ""),
            ref.launch_id,
            ref.created,
            *reason(ref),
        )
        for ref in others
    ]
    return tuple(sorted(found, key=lambda run: (run.launched, run.launch_id, run.arm, run.seed)))


def with_records(
    index: Index, arms: Sequence[Sequence[RunRef]], tell: Tell
) -> tuple[list[tuple[RunRef, ...]], frozenset[str]]:
    """Return the arms without the runs of a registered experiment whose records are gone, and the ids of these.

    They have failed, and the answer says so. Of other runs the comparison is refused, as is an arm of which nothing is
    left: nobody can say what they were.
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
    gone = frozenset(row.ref.run_id for row in rows if row.expectations is None and row.state.is_terminal)
    rest = [tuple(ref for ref in arm if ref.run_id not in gone) for arm in arms]
    if not all(rest):
        return [tuple(arm) for arm in arms], frozenset()
    for run_id in sorted(gone):
        tell(f"{run_id}: its records are gone, and it counts as failed")
    return rest, gone


def without_records(left_out: tuple[LeftOut, ...], gone: frozenset[str]) -> tuple[LeftOut, ...]:
    """Say of the runs whose records are gone that this is why they are not compared."""
    from rlx.compare.left_out import LeftOutBy

    return tuple(
        replace(run, by=LeftOutBy.REMOVAL, why="its records are gone") if run.run_id in gone else run
        for run in left_out
    )


def _reasons(index: Index, names: Sequence[str], compared: Sequence[RunRef]) -> Callable[[RunRef], Reason]:
    """Make what tells of a run who left it out, and by what."""
    from rlx.compare.left_out import LeftOutBy
    from rlx.runs.index.resolve import called, meant_by, named_runs, removed_runs

    tombstones, refs, removed = index.tombstones(), named_runs(index), removed_runs(index)
    by_id = [name for name in names if not called(refs, name)]
    meant = {ref.run_id for name in by_id for ref in meant_by(name.split(","), refs, removed)}
    launches, arms = {ref.launch_id for ref in compared}, {ref.arm for ref in compared}
    taken = {(ref.launch_id, ref.arm) for ref in compared}
    newest = max((ref.created for ref in compared), default=0.0)

    def reason(ref: RunRef) -> Reason:
        if (tombstone := tombstones.get(ref.run_id)) is not None:
            return LeftOutBy.REMOVAL, tombstone.sentence
        is_called = _is_called(ref, names)
        if ref.run_id in meant or (is_called and (ref.launch_id, ref.arm) in taken):
            return LeftOutBy.COMMAND_LINE, "--seed does not name it"
        if not names and ref.launch_id in launches:
            return LeftOutBy.COMMAND_LINE, "--seed does not name it"
        if names and is_called and ref.created > newest:
            return LeftOutBy.ONE_LAUNCH, "in its launch not all of these arms have finished"
        if not names or is_called:
            return LeftOutBy.NEWEST_LAUNCH, "it is of an earlier one"
        what = "other runs" if ref.arm in arms else "other arms"
        return LeftOutBy.COMMAND_LINE, f"it names {what}"

    return reason


def _is_called(ref: RunRef, names: Sequence[str]) -> bool:
    """Tell whether some name, no run id, would mean this run, too, if its launch were the only one."""
    return any(name in (ref.arm, ref.run_name, ref.short_name, ref.name) for name in names)


def known_states(index: Index, refs: Sequence[RunRef]) -> dict[str, str]:
    """The states of runs by id: of those on this machine now, of others as last seen, without those never seen."""
    from rlx.runs.status.snapshots import take_snapshots

    here = [ref for ref in refs if ref.place.is_local]
    seen = {run_id: sight.state.value for run_id, sight in take_snapshots(index, here).items()}
    known = index.cached_states([ref.run_id for ref in refs if not ref.place.is_local])
    seen |= {run_id: sighting.observation.state.value for run_id, sighting in known.items()}
    # Of what was deleted nothing else tells any more how it ended.
    return seen | {run_id: each.state for run_id, each in index.tombstones().items() if each.deleted}


def with_other_experiments(index: Index, found: Comparison, judged: Sequence[JudgedRun]) -> Comparison:
    """Add the experiments with other names whose model, data and kind of treatment are those of the compared runs.

    The kind of a treatment is the section of the recipe that it changes. Runs count whose manifest is on this machine:
    no host is asked, and runs without a recipe are of no kind.
    """
    from rlx.compare.other_experiments import OtherExperiment
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
        OtherExperiment(
            name,
            len(runs),
            tuple(dict.fromkeys(ref.arm for ref, _ in runs)),
            tuple(dict.fromkeys(plan.registration.short for _, plan in runs if plan.registration)),
            (_day(min(ref.created for ref, _ in runs)), _day(max(ref.created for ref, _ in runs))),
        )
        for name, runs in sorted(alike.items())
    )
    return replace(found, treatment_kind=", ".join(sorted(kinds)), others=others)


def _kinds(plan: LaunchPlan) -> set[str]:
    return {key.partition(".")[0] for key in plan.treatment if plan.has_recipe} - {"seed"}


def _subject(plan: LaunchPlan) -> tuple[Any, ...]:
    """What model and data are, as far as a recipe says it."""
    model, data = (_section(plan.recipe, name) for name in ("model", "data"))
    return model.get("path"), data.get("train"), data.get("val")


def _section(recipe: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = recipe.get(name)
    return section if isinstance(section, dict) else {}


def _day(epoch: float) -> str:
    import time

    return time.strftime("%Y-%m-%d", time.gmtime(epoch))
