"""Find the runs of a registered experiment, and which of them stand for the registered ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.compare.run_slots import RunSlots
    from rlx.plan import Registration
    from rlx.runs import Index
    from rlx.runs.looking.overview import Overview


@dataclass(frozen=True, slots=True)
class ExperimentRuns:
    """Every run whose manifest names an experiment. `rows`: as they were last seen, by id."""

    rows: Mapping[str, Overview]
    slots: RunSlots


def experiment_runs(index: Index, asked: Registration) -> ExperimentRuns:
    """Look at the runs of an experiment where they are, at all their places at once.

    Of those that failed or were lost the log is asked for the cause, which decides whether they keep their place.
    """
    from rlx.compare.run_outcome import outcome_of
    from rlx.compare.run_slots import EndedRun, run_slots
    from rlx.runs.judging.diagnosed import causes_of
    from rlx.runs.looking.overview import overview

    seen = overview(index, [ref for ref in index.runs() if ref.name == asked.name])
    rows = [row for row in seen if row.registration is not None and row.registration.digest == asked.digest]
    causes, ended = causes_of(rows), []
    for row in rows:
        ref, cause = row.ref, causes.get(row.ref.run_id)
        outcome, why = outcome_of(row.state, row.verdict, cause, is_explained=row.as_of is None)
        ended.append(EndedRun(ref.run_id, ref.arm, ref.seed, ref.created, outcome, why))
    return ExperimentRuns({row.ref.run_id: row for row in rows}, run_slots(asked, ended))
