"""One answer to "what is this run?": the same state, whichever command asks."""

from __future__ import annotations

import os
import time

import pytest

from rlx.model import RunState
from rlx.runs import Files, Index, RunRef, take_snapshots
from rlx.runs.judging.judge_runs import judge_runs
from rlx.runs.status.judged_snapshots import judged_snapshots
from tests.runs.toys import FOREVER, home, log_of, start_one, until

STEPS = 'for step in 1 2 3 4; do echo "step:$step - timing_s/step:0.5"; done\n'
"""On the console only, as a back-end without a metrics file logs them."""


def stepping() -> RunRef:
    ref = start_one(STEPS + FOREVER)
    until(lambda: "step:4" in log_of(ref), "it has made its steps")
    return ref


def states_of(ref: RunRef) -> list[RunState]:
    """The state of a run as each way of looking tells it."""
    index = Index(home())
    looks = [take_snapshots(index, [ref], files)[ref.run_id].state for files in Files]
    return [*looks, judged_snapshots(index, [ref])[0].state, judge_runs(index, [ref])[0].state]


def test_a_live_run_with_steps_on_its_console_only_is_running_to_all_who_ask() -> None:
    assert set(states_of(stepping())) == {RunState.RUNNING}


def test_a_live_run_without_a_step_for_long_is_stalled_to_all_who_ask() -> None:
    ref = stepping()
    os.utime(ref.run_dir / "attempts/1/log", (time.time() - 1200,) * 2)
    assert set(states_of(ref)) == {RunState.STALLED}


@pytest.mark.parametrize("files", Files)
def test_a_run_whose_manifest_is_gone_still_has_a_state(files: Files) -> None:
    ref = stepping()
    (ref.run_dir / "manifest.json").unlink()
    sight = take_snapshots(Index(home()), [ref], files)[ref.run_id]
    assert sight.manifest is None and sight.state is RunState.RUNNING
