"""Find the registered experiment of some runs, and what all of its runs answer together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared
    from rlx.api.telling import Tell
    from rlx.compare import RegisteredResult, Slot
    from rlx.compare.left_out import LeftOut
    from rlx.evidence import JudgedRun
    from rlx.plan import Registration, RunState
    from rlx.runs import Index, RunRef


@dataclass(frozen=True, slots=True)
class Answered:
    """What an experiment answers. `compared`: its runs held against each other; None while that cannot be."""

    result: RegisteredResult
    compared: Compared | None = None


def answered(index: Index, judged: Sequence[JudgedRun], tell: Tell) -> list[Answered]:
    """What each experiment answers that one of these runs is registered for, from all of its runs in the index.

    `judged` are taken as they are; further runs are looked for and judged where they are.
    """
    asked = {run.plan.registration.digest: run.plan.registration for run in judged if run.plan.registration}
    return [_answered(index, _as_known_here(index, one), judged, tell) for one in asked.values()]


def _as_known_here(index: Index, asked: Registration) -> Registration:
    """With the time at which it was registered here: whoever can write a run directory can put another into it."""
    from rlx.runs.index.registrations import read_registrations

    return next((one for one in read_registrations(index.home) if one.digest == asked.digest), asked)


def _answered(index: Index, asked: Registration, judged: Sequence[JudgedRun], tell: Tell) -> Answered:
    from rlx.compare import ended_result, objected_result, open_result

    launched = _launched(index, asked, judged)
    counting = _counting(asked, launched)
    left_out = tuple(_left_out(asked, launched, counting))
    runs = _judged(index, counting, judged, tell)
    if found := open_result(asked, runs):
        return Answered(replace(found, left_out=left_out))
    try:
        compared = _compared(index, asked, counting, runs, tell)
    except RlxError as problem:
        return Answered(replace(objected_result(asked, runs, problem.message), left_out=left_out))
    return Answered(replace(ended_result(asked, runs, compared.comparison), left_out=left_out), compared)


def _launched(index: Index, asked: Registration, judged: Sequence[JudgedRun]) -> Mapping[RunRef, RunState]:
    """Every run in the index whose manifest names this experiment, the oldest first, with its state."""
    from rlx.runs.looking.overview import overview

    refs = [ref for ref in index.runs() if ref.name == asked.name]
    known = {run.run_id: (run.plan.registration, run.state) for run in judged}
    others = overview(index, [ref for ref in refs if ref.run_id not in known])
    known |= {row.ref.run_id: (row.registration, row.state) for row in others}
    found = {ref: state for ref in refs for one, state in [known[ref.run_id]] if one and one.digest == asked.digest}
    return dict(sorted(found.items(), key=lambda item: item[0].created))


def _counting(asked: Registration, launched: Iterable[RunRef]) -> Mapping[Slot, RunRef]:
    """The run of each registered seed and arm that counts: the first that was launched, whatever came of it."""
    slots, found = set(asked.slots), dict[tuple[int, str], Any]()
    for ref in launched:
        if (ref.seed, ref.arm) in slots:
            found.setdefault((ref.seed, ref.arm), ref)
    return found


def _left_out(
    asked: Registration, launched: Mapping[RunRef, RunState], counting: Mapping[Slot, RunRef]
) -> Iterator[LeftOut]:
    """The runs of the experiment that do not count."""
    from rlx.compare.left_out import LeftOut, LeftOutBy

    taken = {ref.run_id for ref in counting.values()}
    for ref, state in launched.items():
        if ref.run_id not in taken:
            first = counting.get((ref.seed, ref.arm))
            why = f"{first.run_id} was launched before it" if first else f"seed {ref.seed} was not registered"
            yield LeftOut(
                ref.run_id,
                ref.name,
                ref.arm,
                ref.seed,
                state.value,
                ref.launch_id,
                ref.created,
                LeftOutBy.REGISTRATION,
                why,
            )


def _judged(
    index: Index, counting: Mapping[Slot, RunRef], judged: Sequence[JudgedRun], tell: Tell
) -> Mapping[Slot, JudgedRun]:
    from rlx.api.judged_comparison import judged_arms

    known = {run.run_id: run for run in judged}
    (further,) = judged_arms(index, [[ref for ref in counting.values() if ref.run_id not in known]], tell)
    known |= {run.run_id: run for run in further}
    return {slot: known[ref.run_id] for slot, ref in counting.items()}


def _compared(
    index: Index, asked: Registration, refs: Mapping[Slot, RunRef], runs: Mapping[Slot, JudgedRun], tell: Tell
) -> Compared:
    """Hold the arms of the experiment against each other as they were registered, each run beside its control."""
    from rlx.api.judged_comparison import beside_control, compare_judged

    arms = [[(seed, arm) for seed in asked.seeds] for arm in (asked.control, *asked.treatments)]
    judged = beside_control(index, [[runs[slot] for slot in arm] for arm in arms])
    return compare_judged(index, [[refs[slot] for slot in arm] for arm in arms], judged, asked.metric, tell)
