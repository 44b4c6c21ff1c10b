"""Find the runs of the compared experiments that are not compared, and who left them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.compare.left_out import LeftOut, LeftOutBy
    from rlx.runs import Index, RunRef

    Reason = tuple[LeftOutBy, str]


def left_out_runs(index: Index, names: Sequence[str], arms: Sequence[Sequence[RunRef]]) -> tuple[LeftOut, ...]:
    """Every run in the index with the name of a compared experiment that is in none of `arms`, the oldest first.

    `names` are the words that meant the arms; none where the newest launch was taken as a whole. The states of runs on
    other hosts are those that were seen last: no host is asked for them.
    """
    from rlx.compare.left_out import LeftOut
    from rlx.runs.index.resolve import some_runs

    refs, compared = some_runs(index), [*chain(*arms)]
    taken, experiments = {ref.run_id for ref in compared}, {ref.name for ref in compared}
    others = [ref for ref in refs if ref.name in experiments and ref.run_id not in taken]
    states, reason = _states(index, others), _reasons(names, compared, refs)
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


def _reasons(names: Sequence[str], compared: Sequence[RunRef], refs: Sequence[RunRef]) -> Callable[[RunRef], Reason]:
    """Make what tells of a run who left it out, and by what."""
    from rlx.compare.left_out import LeftOutBy
    from rlx.runs.index.resolve import meant_by

    meant = {ref.run_id for name in names for ref in meant_by(name.split(","), refs)}
    launches, arms = {ref.launch_id for ref in compared}, {ref.arm for ref in compared}

    def reason(ref: RunRef) -> Reason:
        if ref.run_id in meant or (not names and ref.launch_id in launches):
            return LeftOutBy.COMMAND_LINE, "--seed does not name it"
        if not names or (ref.launch_id not in launches and _is_called(ref, names)):
            return LeftOutBy.NEWEST_LAUNCH, "it is of an earlier one"
        what = "other runs" if ref.arm in arms else "other arms"
        return LeftOutBy.COMMAND_LINE, f"it names {what}"

    return reason


def _is_called(ref: RunRef, names: Sequence[str]) -> bool:
    """Tell whether some name, no run id, would mean this run, too, if its newest launch were not there."""
    return any(name in (ref.arm, ref.run_name, ref.short_name, ref.name) for name in names)


def _states(index: Index, refs: Sequence[RunRef]) -> dict[str, str]:
    from rlx.runs.looking.look import look

    here = [ref for ref in refs if ref.place.is_local]
    seen = {run_id: sight.state.value for run_id, sight in look(index, here).items()}
    known = index.sightings([ref.run_id for ref in refs if not ref.place.is_local])
    return seen | {run_id: sighting.observation.state.value for run_id, sighting in known.items()}
