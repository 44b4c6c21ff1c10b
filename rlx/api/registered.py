"""Find the registered experiment of some runs, and what all of its runs answer together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared
    from rlx.api.telling import Tell
    from rlx.compare import RegisteredResult
    from rlx.compare.left_out import LeftOut
    from rlx.compare.run_slots import EndedRun, PassedOver, RunSlots
    from rlx.evidence import JudgedRun
    from rlx.model import Registration
    from rlx.runs import Index, RunRef
    from rlx.runs.status.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Answered:
    """What an experiment answers. `compared`: its runs by the first metric; None while they cannot be compared."""

    result: RegisteredResult
    compared: Compared | None = None


def answered(index: Index, judged: Sequence[JudgedRun], tell: Tell) -> list[Answered]:
    """What each experiment answers that one of these runs is registered for, from all of its runs in the index.

    `judged` are taken as they are; further runs are looked for and judged where they are.
    """
    from rlx.runs.index.registrations import known_here

    asked: list[Registration] = []
    for run in judged:
        one = run.plan.registration
        if one and not any(one.is_same(other) for other in asked):
            # With the time at which it was registered here: whoever can write a run directory can put another into it.
            asked.append(known_here(index.home, one) or one)
    return [_answered(index, one, judged, tell) for one in asked]


def _answered(index: Index, asked: Registration, judged: Sequence[JudgedRun], tell: Tell) -> Answered:
    from rlx.api.experiments import ended_runs, known_runs
    from rlx.api.registered_notes import registered_notes
    from rlx.compare.run_slots import run_slots

    rows = {row.ref.run_id: row for row in known_runs(index, asked)}
    found = _told_removed(run_slots(asked, ended_runs([*rows.values()])), rows)
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
) -> Answered:
    from rlx.compare import ended_result, objected_result, open_result

    left_out = tuple(_left_out(each, rows[each.run.run_id]) for each in found.passed_over)
    standing = [rows[run.run_id] for run in found.standing.values()]
    # Of a run whose records are gone nothing is left to judge.
    refs = {row.ref.run_id: row.ref for row in standing if row.expectations is not None}
    runs = _judged(index, [*refs.values()], judged, tell)
    if result := open_result(asked, found.slots, runs):
        return Answered(replace(result, left_out=left_out))
    if len(refs) < len(standing):
        return Answered(replace(objected_result(asked, found.slots, runs, ""), left_out=left_out))
    try:
        compared = _compared(index, asked, found, refs, runs, tell)
    except RlxError as problem:
        return Answered(replace(objected_result(asked, found.slots, runs, problem.message), left_out=left_out))
    result = ended_result(asked, found.slots, runs, [each.comparison for each in compared])
    return Answered(replace(result, left_out=left_out), compared[0])


def _told_removed(found: RunSlots, rows: Mapping[str, Snapshot]) -> RunSlots:
    """Say of each run that somebody removed that it counts all the same."""

    def told(why: str, run: EndedRun | None) -> str:
        removed = rows[run.run_id].removed if run else None
        return "; ".join(filter(None, (why, f"{removed.sentence}, and counts all the same"))) if removed else why

    slots = tuple(replace(slot, why=told(slot.why, slot.run)) for slot in found.slots)
    passed = tuple(replace(each, why=told(each.why, each.run)) for each in found.passed_over)
    return replace(found, slots=slots, passed_over=passed)


def _left_out(passed: PassedOver, row: Snapshot) -> LeftOut:
    from rlx.compare.left_out import LeftOut, LeftOutBy

    ref = row.ref
    of_run = (ref.run_id, ref.name, ref.arm, ref.seed, row.state.value, ref.launch_id, ref.created)
    return LeftOut(*of_run, LeftOutBy.REGISTRATION, passed.why)


def _judged(index: Index, refs: Sequence[RunRef], judged: Sequence[JudgedRun], tell: Tell) -> Mapping[str, JudgedRun]:
    """The runs by id; those that were judged already as they are."""
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
    """Hold the arms of the experiment against each other as they were registered, by each of its metrics."""
    from rlx.api.judged_comparison import beside_control, compare_judged

    standing = found.standing
    arms = [[standing[seed, arm].run_id for seed in asked.seeds] for arm in (asked.control, *asked.treatments)]
    judged = beside_control(index, [[runs[run_id] for run_id in arm] for arm in arms])
    places = [[refs[run_id] for run_id in arm] for arm in arms]
    return [
        compare_judged(index, places, judged, metric, tell, systems=asked.is_of_systems) for metric in asked.metrics
    ]
