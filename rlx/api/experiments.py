"""List the registered experiments with their runs: what is there, what is missing, what was added, what failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from rlx.errors import NoSuchRun, RlxError
from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared
    from rlx.api.runs import Tell
    from rlx.compare import RegisteredResult
    from rlx.compare.excluded_runs import ExcludedRun
    from rlx.compare.slot_assignment import EndedRun, PassedOver, RunSlots
    from rlx.evidence import JudgedRun
    from rlx.evidence.diagnosis import Hit
    from rlx.model import Registration
    from rlx.runs import Index, RunRef
    from rlx.runs.status.snapshots import Snapshot

REGISTERED, SPARE, ADDED = "registered", "spare", "added"
"""The part of a run in its experiment: one of those announced, one kept in reserve, or neither."""
_NAMED = 5
_HOUR, _DAY = 3600.0, 86400.0
_SHORTEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Slot:
    """The runs of one arm with one seed, the oldest first; `part` is REGISTERED, SPARE or ADDED."""

    arm: str
    seed: int
    part: str
    runs: tuple[Snapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredExperiment:
    """A registration and all runs whose manifests name it, by seed in the order of their launch.

    `apart`: runs of a recipe of that name that belong to another experiment, or to none. `assigned`: which run stands
    for each registered one, and why the others do not. `notes`: what is to be read beside its answer.
    """

    registration: Registration
    slots: tuple[Slot, ...]
    apart: tuple[Snapshot, ...]
    assigned: RunSlots
    notes: tuple[Finding, ...] = ()

    @property
    def missing(self) -> tuple[Slot, ...]:
        """Return the registered runs that have not been launched."""
        return tuple(slot for slot in self.slots if slot.part == REGISTERED and not slot.runs)

    @property
    def added(self) -> tuple[Snapshot, ...]:
        """Runs with seeds that are neither registered nor spare."""
        return tuple(run for slot in self.slots if slot.part == ADDED for run in slot.runs)

    @property
    def relaunched(self) -> tuple[Slot, ...]:
        """Arms with a seed that has more than one run."""
        return tuple(slot for slot in self.slots if len(slot.runs) > 1)

    @property
    def failed(self) -> tuple[Snapshot, ...]:
        """Runs that have ended without a result that counts."""
        return tuple(run for run in chain.from_iterable(slot.runs for slot in self.slots) if _has_failed(run))


def experiments(name: str | None = None) -> list[RegisteredExperiment]:
    """Look at every experiment that was registered from here or that a known run names, the newest first.

    `name`: only those of a recipe so called, or with a digest that begins so. Raises NoSuchRun where no experiment
    fits.
    """
    from rlx.api.runs import open_index
    from rlx.runs.index.registrations import read_registrations
    from rlx.runs.status.judged_snapshots import judged_snapshots

    index = open_index()
    known = read_registrations(index.home)
    names = {one.name for one in known if _is_called(one, name)} | ({name} if name else set())
    rows = judged_snapshots(index, [ref for ref in index.runs() if name is None or ref.name in names])
    found = _one_of_each(known, (row.registration for row in rows if row.registration))
    wanted = [one for one in found if _is_called(one, name)]
    if name is not None and not wanted:
        there = ", ".join(dict.fromkeys(one.name for one in known))
        raise NoSuchRun(f"no experiment is called {name!r}", f"there is: {there}" if there else "none is registered")
    return [_with_runs(index, one, rows) for one in wanted]


def known_runs(index: Index, asked: Registration) -> list[Snapshot]:
    """Look at all runs of an experiment; their hosts are asked.

    A run of that recipe, launched since the experiment was registered, of which it is not known what it belongs to
    counts as one of it: else an unreachable host would have its runs launched twice.
    """
    from rlx.runs.index.registrations import known_here
    from rlx.runs.status.judged_snapshots import judged_snapshots

    known = known_here(index.home, asked)
    refs = [ref for ref in index.runs() if ref.name == asked.name]
    if known is None and not refs:
        return []
    return [row for row in judged_snapshots(index, refs) if _is_of(row, asked, (known or asked).registered)]


def _is_of(row: Snapshot, asked: Registration, since: str) -> bool:
    from rlx.runs.run import utc_text

    if row.registration is not None or row.expectations is not None or (row.removed and row.removed.manifest):
        return _names(row, asked)
    return bool(since) and utc_text(row.ref.created) >= since


def ended_runs(rows: Sequence[Snapshot]) -> tuple[EndedRun, ...]:
    """Say of each run how it ended, for `rlx.compare.slot_assignment`; the logs of those that failed are asked.

    A run whose records are gone failed: else removing a run would free its place for another one.
    """
    from rlx.runs.judging.diagnose_runs import causes_of

    causes = causes_of(rows)
    return tuple(_ended_run(row, causes) for row in rows)


def _ended_run(row: Snapshot, causes: Mapping[str, Hit | None]) -> EndedRun:
    from rlx.compare.slot_assignment import EndedRun, RunOutcome, outcome_of

    ref, run_id = row.ref, row.ref.run_id
    if row.expectations is None and row.state.is_terminal:
        return EndedRun(run_id, ref.arm, ref.seed, ref.created, RunOutcome.FAILED, "its records are gone")
    found = outcome_of(row.state, row.verdict, causes.get(run_id), is_explained=run_id in causes)
    return EndedRun(run_id, ref.arm, ref.seed, ref.created, *found)


def _is_called(registration: Registration, name: str | None) -> bool:
    return name is None or registration.name == name or registration.digest.startswith(name)


def _one_of_each(known: Sequence[Registration], shown: Iterable[Registration]) -> list[Registration]:
    """One registration an experiment, the latest first: that from here, else the earliest that a manifest shows.

    A person who can write a run directory could put an earlier time into it.
    """
    found: list[Registration] = []
    for one in (*reversed(known), *sorted(shown, key=lambda one: one.registered)):
        if not any(one.is_same(other) for other in found):
            found.append(one)
    return sorted(found, key=lambda one: one.registered, reverse=True)


def _with_runs(index: Index, registration: Registration, rows: Sequence[Snapshot]) -> RegisteredExperiment:
    from rlx.compare.slot_assignment import assign_slots

    named = [(_is_of(row, registration, registration.registered), row) for row in rows]
    own = [row for is_own, row in named if is_own]
    apart = tuple(row for is_own, row in named if not is_own and row.ref.name == registration.name)
    assigned = assign_slots(registration, ended_runs(own))
    notes = registered_notes(index, registration, assigned, {row.ref.run_id: row for row in own})
    return RegisteredExperiment(registration, tuple(_slots(registration, own)), apart, assigned, notes)


def _names(row: Snapshot, registration: Registration) -> bool:
    """Tell whether its manifest names the experiment; where its files were deleted, whether it did before."""
    if row.registration is not None:
        return registration.is_same(row.registration)
    return row.removed is not None and registration.is_called(row.removed.experiment)


def _slots(registration: Registration, rows: Sequence[Snapshot]) -> Iterator[Slot]:
    runs: dict[tuple[int, str], list[Snapshot]] = {}
    for row in sorted(rows, key=lambda row: row.ref.created):
        runs.setdefault((row.ref.seed, row.ref.arm), []).append(row)
    registered = tuple(registration.slots)
    rest = sorted(slot for slot in runs if slot not in registered)
    for seed, arm in (*registered, *rest):
        part = REGISTERED if (seed, arm) in registered else SPARE if seed in registration.spare_seeds else ADDED
        yield Slot(arm, seed, part, tuple(runs.get((seed, arm), ())))


def _has_failed(run: Snapshot) -> bool:
    from rlx.model import RunState

    if run.expectations is None and run.state.is_terminal:
        return True
    return run.state.is_terminal and (run.state is not RunState.FINISHED or not run.verdict.is_result(ended=True))


@dataclass(frozen=True, slots=True)
class ExperimentAnswer:
    """What an experiment answers. `compared`: its runs by the first metric; None while they cannot be compared."""

    result: RegisteredResult
    compared: Compared | None = None


def answered(index: Index, judged: Sequence[JudgedRun], tell: Tell) -> list[ExperimentAnswer]:
    """Answer each experiment that one of these runs is registered for, from all of its runs in the index.

    `judged` are taken as they are; further runs are looked for and judged where they are.
    """
    from rlx.runs.index.registrations import known_here

    asked: list[Registration] = []
    for run in judged:
        one = run.plan.registration
        if one and not any(one.is_same(other) for other in asked):
            # With the time at which it was registered here: a run directory may contain another one.
            asked.append(known_here(index.home, one) or one)
    return [_answered(index, one, judged, tell) for one in asked]


def _answered(index: Index, asked: Registration, judged: Sequence[JudgedRun], tell: Tell) -> ExperimentAnswer:
    from rlx.compare.slot_assignment import assign_slots

    rows = {row.ref.run_id: row for row in known_runs(index, asked)}
    found = _told_removed(assign_slots(asked, ended_runs([*rows.values()])), rows)
    notes = registered_notes(index, asked, found, rows)
    answered = _answered_by(index, asked, found, rows, judged, tell)
    return replace(answered, result=replace(answered.result, notes=notes))


def _answered_by(
    index: Index,
    asked: Registration,
    found: RunSlots,
    rows: Mapping[str, Snapshot],
    judged: Sequence[JudgedRun],
    tell: Tell,
) -> ExperimentAnswer:
    from rlx.compare import ended_result, objected_result, open_result

    left_out = tuple(_left_out(each, rows[each.run.run_id]) for each in found.passed_over)
    standing = [rows[run.run_id] for run in found.standing.values()]
    # Of a run whose records are gone nothing is left to judge.
    refs = {row.ref.run_id: row.ref for row in standing if row.expectations is not None}
    runs = _judged(index, [*refs.values()], judged, tell)
    if result := open_result(asked, found.slots, runs):
        return ExperimentAnswer(replace(result, left_out=left_out))
    if len(refs) < len(standing):
        return ExperimentAnswer(replace(objected_result(asked, found.slots, runs, ""), left_out=left_out))
    try:
        compared = _compared(index, asked, found, refs, runs, tell)
    except RlxError as problem:
        return ExperimentAnswer(replace(objected_result(asked, found.slots, runs, problem.message), left_out=left_out))
    result = ended_result(asked, found.slots, runs, [each.comparison for each in compared])
    return ExperimentAnswer(replace(result, left_out=left_out), compared[0])


def _told_removed(found: RunSlots, rows: Mapping[str, Snapshot]) -> RunSlots:
    """Note of each removed run that it still counts."""

    def told(why: str, run: EndedRun | None) -> str:
        removed = rows[run.run_id].removed if run else None
        return "; ".join(filter(None, (why, f"{removed.sentence}, and counts all the same"))) if removed else why

    slots = tuple(replace(slot, why=told(slot.why, slot.run)) for slot in found.slots)
    passed = tuple(replace(each, why=told(each.why, each.run)) for each in found.passed_over)
    return replace(found, slots=slots, passed_over=passed)


def _left_out(passed: PassedOver, row: Snapshot) -> ExcludedRun:
    from rlx.compare.excluded_runs import ExcludedBy, ExcludedRun

    ref = row.ref
    of_run = (ref.run_id, ref.name, ref.arm, ref.seed, row.state.value, ref.launch_id, ref.created)
    return ExcludedRun(*of_run, ExcludedBy.REGISTRATION, passed.why)


def _judged(index: Index, refs: Sequence[RunRef], judged: Sequence[JudgedRun], tell: Tell) -> Mapping[str, JudgedRun]:
    """Return the runs by id; those that were judged already as they are."""
    from rlx.api.judged_comparison import judged_arms

    known = {run.run_id: run for run in judged}
    (further,) = judged_arms(index, [[ref for ref in refs if ref.run_id not in known]], tell)
    return known | {run.run_id: run for run in further}


def _compared(
    index: Index,
    asked: Registration,
    found: RunSlots,
    refs: Mapping[str, RunRef],
    runs: Mapping[str, JudgedRun],
    tell: Tell,
) -> list[Compared]:
    """Compare the arms of the experiment as they were registered, by each of its metrics."""
    from rlx.api.judged_comparison import beside_control, compare_judged

    standing = found.standing
    arms = [[standing[seed, arm].run_id for seed in asked.seeds] for arm in (asked.control, *asked.treatments)]
    judged = beside_control(index, [[runs[run_id] for run_id in arm] for arm in arms])
    places = [[refs[run_id] for run_id in arm] for arm in arms]
    return [
        compare_judged(index, places, judged, metric, tell, systems=asked.is_of_systems) for metric in asked.metrics
    ]


def registered_notes(
    index: Index, asked: Registration, found: RunSlots, rows: Mapping[str, Snapshot]
) -> tuple[Finding, ...]:
    """Return the findings about the runs of an experiment, by id; `rows`: all of its runs that are known here.

    What leaves no trace cannot be found: docs/experiments.md lists it.
    """
    standing = [rows[run.run_id] for run in found.standing.values()]
    return (
        *_gaps(index, [*rows.values()]),
        *_launched_before(asked, standing),
        *_launched_apart(standing),
        *_asked_otherwise(index, asked),
        *_replaced(asked, found, rows),
    )


def _gaps(index: Index, rows: Sequence[Snapshot]) -> Iterator[Finding]:
    """Name launches whose runs have no neighbour: each has its position in its manifest."""
    known, unknown = _positions(index, rows)
    for launch, seen in sorted(known.items()):
        missing = sorted({*range(max(seen))} - seen)
        if len(missing) > unknown[launch]:
            places = ", ".join(map(str, missing[:_NAMED])) + (" and more" if len(missing) > _NAMED else "")
            yield Finding(
                "RLX934",
                Severity.WARNING,
                f"launch {launch} has {len(seen)} runs here, the last at position {max(seen)}, and none at {places}: "
                f"{len(missing) - unknown[launch]} of its runs are not known here",
                "check whether they were deleted, or are on a host that is missing in `rlx hosts`",
            )


def _positions(index: Index, rows: Sequence[Snapshot]) -> tuple[dict[str, set[int]], Mapping[str, int]]:
    """Return the positions by launch that manifests and hidden runs have, and how many runs have neither."""
    from rlx.runs.copies.mirror import kept
    from rlx.runs.manifest import read_manifest

    copies = kept(index, [row.ref for row in rows])
    known: dict[str, set[int]] = defaultdict(set)
    unknown: dict[str, int] = defaultdict(int)
    for row in rows:
        manifest = read_manifest(copies[row.ref.run_id].run_dir)
        if manifest is not None:
            known[row.ref.launch_id].add(manifest.position)
        elif row.removed is not None and row.removed.manifest:
            known[row.ref.launch_id].add(row.removed.position)
        else:
            unknown[row.ref.launch_id] += 1
    return known, unknown


def _launched_before(asked: Registration, standing: Sequence[Snapshot]) -> Iterator[Finding]:
    from rlx.runs.run import utc_text

    early = [row for row in standing if asked.registered and utc_text(row.ref.created) < asked.registered]
    if early:
        yield Finding(
            "RLX935",
            Severity.WARNING,
            f"launched before the experiment was registered ({asked.registered}): {_named(early)}",
            "a question that is asked after its runs is exploratory",
        )


def _launched_apart(standing: Sequence[Snapshot]) -> Iterator[Finding]:
    """Name the runs of later launches, which may have been started with knowledge of the first values.

    Within the first minute no value was known.
    """
    first = min(standing, key=lambda row: row.ref.created, default=None)
    later = [row for row in standing if first and row.ref.launch_id != first.ref.launch_id]
    last = max((row.ref.created for row in later), default=0) - first.ref.created if first else 0
    if last >= _SHORTEST_S:
        yield Finding(
            "RLX935",
            Severity.NOTE,
            f"launched up to {_span(last)} after the first run: {_named(later)}",
            "the values of earlier runs may have been known",
        )


def _asked_otherwise(index: Index, asked: Registration) -> Iterator[Finding]:
    from rlx.runs.index.registrations import same_question

    others = same_question(index.home, asked)
    if others:
        words = "; ".join(
            f"{one.short} of {one.name} on {one.registered[:10]}, seeds {', '.join(map(str, one.seeds))}"
            for one in others[:_NAMED]
        )
        yield Finding(
            "RLX936",
            Severity.WARNING,
            f"the same question was registered {len(others) + 1} times here, also as {words}",
            "report it with the answer: testing several times inflates false positives",
        )


def _replaced(asked: Registration, found: RunSlots, rows: Mapping[str, Snapshot]) -> Iterator[Finding]:
    """Name runs whose place another one took, because their machine ended them: their values were known at that time.

    A run of a seed that is not registered had no place.
    """
    from rlx.compare.slot_assignment import RunOutcome

    seeds = {*asked.seeds, *asked.spare_seeds}
    others = [each.run for each in found.passed_over]
    lost = [run for run in others if run.outcome is RunOutcome.MACHINE and run.seed in seeds]
    for run in lost:
        row = rows[run.run_id]
        of = f" of {row.steps_total}" if row.steps_total else ""
        seen = f", its last validation {row.validation[1]:.4g} at step {row.validation[0]}" if row.validation else ""
        yield Finding(
            "RLX937",
            Severity.NOTE,
            f"seed {run.seed} of {run.arm} ({run.run_id}) was {row.state} at step {row.steps_done}{of}{seen}, and its "
            "place was given up as its machine's fault",
            "a run ended on purpose can be chosen by its values: report what ended it",
        )


def _named(rows: Sequence[Snapshot]) -> str:
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return ", ".join(row.ref.run_id for row in rows[:_NAMED]) + more


def _span(seconds: float) -> str:
    if seconds >= _DAY:
        return f"{seconds / _DAY:.1f} days"
    return f"{seconds / _HOUR:.1f} hours" if seconds >= _HOUR else f"{seconds / 60:.0f} minutes"
