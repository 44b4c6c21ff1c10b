"""Concludes the state of a run from all that is known of it: what its host reported, and what its evidence shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.evidence.diagnosis import Quiet, is_stalled
from rlx.model import RunState
from rlx.runs.duration import duration
from rlx.runs.looking.observation import Observation

if TYPE_CHECKING:
    from rlx.evidence import Evidence
    from rlx.model import Expectations


def conclude(
    seen: Observation, copied_end: RunState | None, evidence: Evidence | None, expectations: Expectations | None
) -> Observation:
    """The observation with the state that follows from all of it. What is None is not known.

    `derive_state` goes by the files and processes of a run. Only its log says whether it makes steps, and how long one
    takes; and what a silent host cannot tell, the copy of a run that is over can.
    """
    if seen.state is RunState.UNREACHABLE and copied_end is not None:
        return replace(seen, state=copied_end)
    return _by_its_log(seen, evidence, expectations) if evidence else seen


def _by_its_log(seen: Observation, evidence: Evidence, expectations: Expectations | None) -> Observation:
    if seen.state is RunState.STARTING and evidence.last_step:
        # A back-end may log its steps to the console only, where the host does not look.
        seen = replace(seen, state=RunState.RUNNING)
    if seen.state is RunState.RUNNING and expectations and is_stalled(evidence, expectations, quiet(seen)):
        return _stalled(seen)
    return seen


def _stalled(seen: Observation) -> Observation:
    words = f"no step for {duration(quiet(seen).without_step_s or 0)}: rlx diagnose {seen.run_id}"
    return replace(seen, state=RunState.STALLED, detail="; ".join(filter(None, (seen.detail, words))))


def quiet(seen: Observation) -> Quiet:
    """The time for which the run has been silent."""
    return Quiet(seen.seconds_since_step, seen.seconds_since_log, seen.seconds_since_start)
