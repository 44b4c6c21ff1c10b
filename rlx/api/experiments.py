"""List the registered experiments with their runs: what is there, what is missing, what was added, what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rlx.errors import NoSuchRun

if TYPE_CHECKING:
    from rlx.compare.run_slots import EndedRun, RunSlots
    from rlx.evidence.diagnosis import Hit
    from rlx.model import Finding, Registration
    from rlx.runs import Index
    from rlx.runs.status.snapshots import Snapshot

REGISTERED, SPARE, ADDED = "registered", "spare", "added"
"""The part of a run in its experiment: one of those announced, one kept in reserve, or neither."""


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
        """The registered runs that nobody has launched."""
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

    `name`: only those of a recipe so called, or with a digest that begins so. Raises NoSuchRun where there is none.
    """
    from rlx.api.selection import open_index
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

    A run of that recipe, launched since the experiment was registered, of which nobody can say what it belongs to
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
    """Say of each run how it ended, for `rlx.compare.run_slots`; the logs of those that failed are asked.

    A run whose records are gone failed: else whoever removes a run could have another one in its place.
    """
    from rlx.runs.judging.diagnose_runs import causes_of

    causes = causes_of(rows)
    return tuple(_ended_run(row, causes) for row in rows)


def _ended_run(row: Snapshot, causes: Mapping[str, Hit | None]) -> EndedRun:
    from rlx.compare.run_outcome import outcome_of
    from rlx.compare.run_slots import EndedRun, Outcome

    ref, run_id = row.ref, row.ref.run_id
    if row.expectations is None and row.state.is_terminal:
        return EndedRun(run_id, ref.arm, ref.seed, ref.created, Outcome.FAILED, "its records are gone")
    found = outcome_of(row.state, row.verdict, causes.get(run_id), is_explained=run_id in causes)
    return EndedRun(run_id, ref.arm, ref.seed, ref.created, *found)


def _is_called(registration: Registration, name: str | None) -> bool:
    return name is None or registration.name == name or registration.digest.startswith(name)


def _one_of_each(known: Sequence[Registration], shown: Iterable[Registration]) -> list[Registration]:
    """One registration an experiment, the latest first: that from here, else the earliest that a manifest shows.

    Whoever can write a run directory can put an earlier time into it.
    """
    found: list[Registration] = []
    for one in (*reversed(known), *sorted(shown, key=lambda one: one.registered)):
        if not any(one.is_same(other) for other in found):
            found.append(one)
    return sorted(found, key=lambda one: one.registered, reverse=True)


def _with_runs(index: Index, registration: Registration, rows: Sequence[Snapshot]) -> RegisteredExperiment:
    from rlx.api.registered_notes import registered_notes
    from rlx.compare.run_slots import run_slots

    named = [(_is_of(row, registration, registration.registered), row) for row in rows]
    own = [row for is_own, row in named if is_own]
    apart = tuple(row for is_own, row in named if not is_own and row.ref.name == registration.name)
    assigned = run_slots(registration, ended_runs(own))
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
