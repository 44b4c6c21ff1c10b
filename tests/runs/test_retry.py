"""rlx retry: another attempt of a run in its own directory. Stand-ins for a training leave its log and checkpoints."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.evidence import read_evidence, series
from rlx.plan import Expectations, LaunchPlan, RunState
from rlx.runs import RunPaths, RunRef
from tests.cli.support import rlx
from tests.runs.toys import FOREVER, ended, home, log_of, logged_pid, reaches, see, start, toy_plan, until

END_OF_ZIP = "504b0506" + 36 * "0"
# Trains 6 steps, saves every second one as verl does, and at the step in `dies_at` of its first attempt it stands still
# in the middle of a checkpoint.
TRAINS = """
echo "Total training steps: 6"
begin=0
case ${RLX_RESUME_FROM:-} in '' | none) ;; *) begin=${RLX_RESUME_FROM##*_} && echo "Setting global step to $begin" ;; esac
echo "from ${RLX_RESUME_FROM:--} as $(basename "$RLX_ATTEMPT_DIR")"
for ((step = begin + 1; step <= 6; step++)); do
  echo "step:$step - actor/loss:$step.$begin - critic/score/mean:0.5"
  echo "{\\"step\\": $step, \\"data\\": {\\"actor/loss\\": $step.$begin, \\"critic/score/mean\\": 0.5}}" >>"$RLX_ATTEMPT_DIR/metrics.jsonl"
  ((step % 2 == 0)) || continue
  folder=$RLX_RUN_DIR/checkpoints/global_step_$step
  mkdir -p "$folder/actor"
  printf 'PK\\005\\006%018d' 0 >"$folder/actor/model.pt"
  if [[ $step == DIES && $RLX_ATTEMPT_DIR == */1 ]]; then echo "pid $$"; HOW; fi
  printf 'PK\\005\\006%018d' 0 >"$folder/data.pt"
  echo "$step" >"$RLX_RUN_DIR/checkpoints/latest_checkpointed_iteration.txt"
done
"""
PROMISES = Expectations(6, (), False, None, 1, "auto", None, False)


def training(dies_at: int = 4, how: str = FOREVER.strip(), **changed: Any) -> LaunchPlan:
    plan = toy_plan(TRAINS.replace("DIES", str(dies_at)).replace("HOW", how.replace("\n", " ")))
    return replace(plan, **{"backend": "verl", "recipe": {"name": "toy"}, "expectations": PROMISES, **changed})


def lost(ref: RunRef) -> RunRef:
    """The run after everything of it was killed at once, as by a machine that restarts."""
    pid = logged_pid(ref, "pid")
    for name in ("supervisor", "leader"):
        os.kill(int((RunPaths(ref.run_dir).latest / "state" / name).read_text().split()[0]), 9)
    os.kill(int((ref.run_dir / "holder").read_text().split()[0]), 9)
    os.kill(pid, 9)
    reaches(ref, RunState.LOST)
    return ref


def lineage(ref: RunRef, attempt: int = 2) -> dict[str, Any]:
    return json.loads((ref.run_dir / f"attempts/{attempt}/lineage.json").read_text())  # type: ignore[no-any-return]


def test_a_lost_run_goes_on_from_its_last_whole_checkpoint() -> None:
    (ref,) = start(training())
    lost(ref)
    done = rlx("retry", "main", "--from-checkpoint", "--json")
    (said,) = json.loads(done.stdout)["runs"]
    assert (said["attempt"], said["begun"], said["step"], said["checkpoint"]) == (2, True, 2, "global_step_2")
    assert "attempt 2 goes on from the checkpoint of step 2 (global_step_2)" in done.stderr
    assert "step 4: it has no data.pt" in done.stderr
    seen = ended(ref)
    assert (seen.state, seen.attempt) == (RunState.FINISHED, 2)
    assert f"from {ref.run_dir}/checkpoints/global_step_2 as 2" in log_of(ref)
    assert os.readlink(ref.run_dir / "latest") == "attempts/2"
    assert (ref.run_dir / "checkpoints/aside-1-global_step_4/actor/model.pt").exists()
    evidence = read_evidence(RunPaths(ref.run_dir).attempts)
    assert series(evidence, "actor/loss") == {1: 1.0, 2: 2.0, 3: 3.2, 4: 4.2, 5: 5.2, 6: 6.2}
    told = lineage(ref)
    assert (told["after"], told["step"], told["checkpoint"]) == ("lost", 2, "global_step_2")
