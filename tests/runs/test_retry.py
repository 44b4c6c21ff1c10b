"""rlx retry: another attempt of a run in its own directory. Stand-ins for a training leave its log and checkpoints."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

from rlx.evidence import read_evidence, series
from rlx.evidence.diagnosis.signatures import causes_of_machine
from rlx.model import Expectations, LaunchPlan, RunState
from rlx.model.attempt_lineage import MACHINE_CAUSES
from rlx.runs import RunPaths, RunRef
from tests.cli.support import rlx
from tests.loopback import Loopback, loopback
from tests.runs.far import Far, far
from tests.runs.toys import FOREVER, ended, home, log_of, logged_pid, reaches, start, toy_plan, until
from tests.wording import settled

__all__ = ["Loopback", "far", "loopback"]

# Trains 6 steps, saves every second one as verl does, and at the step in `dies_at` of its first attempt it stands still
# in the middle of a checkpoint.
TRAINS = """
echo "Total training steps: 6"
begin=0
case ${RLX_RESUME_FROM:-none} in
  none) ;;
  *) begin=${RLX_RESUME_FROM##*_} && echo "Setting global step to $begin" ;;
esac
echo "from ${RLX_RESUME_FROM:--} as $(basename "$RLX_ATTEMPT_DIR")"
for ((step = begin + 1; step <= 6; step++)); do
  echo "step:$step - actor/loss:$step.$begin - critic/score/mean:0.5"
  values="\\"actor/loss\\": $step.$begin, \\"critic/score/mean\\": 0.5"
  echo "{\\"step\\": $step, \\"data\\": {$values}}" >>"$RLX_ATTEMPT_DIR/metrics.jsonl"
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
    pid, state = logged_pid(ref, "pid"), RunPaths(ref.run_dir).latest / "state"
    # Each before those whose end it would record, or whose processes it would end.
    for file in (ref.run_dir / "holder", state / "supervisor", state / "leader"):
        os.kill(int(file.read_text(encoding="utf-8").split()[0]), 9)
    os.kill(pid, 9)
    reaches(ref, RunState.LOST)
    return ref


def lineage(ref: RunRef, attempt: int = 2) -> dict[str, Any]:
    return json.loads((ref.run_dir / f"attempts/{attempt}/lineage.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def test_a_lost_run_goes_on_from_its_last_whole_checkpoint(wording: SnapshotAssertion) -> None:
    (ref,) = start(training())
    lost(ref)
    done = rlx("retry", "main", "--from-checkpoint", "--json")
    (said,) = json.loads(done.stdout)["runs"]
    assert (said["attempt"], said["begun"], said["step"], said["checkpoint"]) == (2, True, 2, "global_step_2")
    assert "global_step_2" in done.stderr and "data.pt" in done.stderr
    assert settled(done.stderr, {ref.run_id: "run"}) == wording
    seen = ended(ref)
    assert (seen.state, seen.attempt) == (RunState.FINISHED, 2)
    assert f"from {ref.run_dir}/checkpoints/global_step_2 as 2" in log_of(ref)
    assert (ref.run_dir / "latest").readlink() == Path("attempts/2")
    assert (ref.run_dir / "checkpoints/aside-1-global_step_4/actor/model.pt").exists()
    evidence = read_evidence(RunPaths(ref.run_dir).attempts)
    assert series(evidence, "actor/loss") == {1: 1.0, 2: 2.0, 3: 3.2, 4: 4.2, 5: 5.2, 6: 6.2}
    told = lineage(ref)
    assert (told["after"], told["step"], told["checkpoint"]) == ("lost", 2, "global_step_2")


def test_what_a_holder_waits_with_would_not_keep_its_lock() -> None:
    """Its supervisor was killed, so that it looks again and again whether anything of the run is left."""
    (ref,) = start(training())
    logged_pid(ref, "pid")
    holder, supervisor = (ref.run_dir / "holder", RunPaths(ref.run_dir).latest / "state/supervisor")
    os.kill(int(supervisor.read_text(encoding="utf-8").split()[0]), 9)
    opened = until(
        lambda: opened_by_sleep(int(holder.read_text(encoding="utf-8").split()[0])), "it waits for the leader"
    )
    assert opened and str(ref.run_dir) not in opened
    rlx("stop", ref.run_id, "--grace", "0")


def opened_by_sleep(parent: int) -> list[str]:
    """What a sleep has open that this process waits for; nothing if there is none now."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split():
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text(encoding="utf-8") == "sleep\n":
                return [str(file.readlink()) for file in Path(f"/proc/{child}/fd").iterdir()]
    return []


def test_anew_nothing_of_the_attempt_before_counts_and_a_second_retry_begins_no_third(
    wording: SnapshotAssertion,
) -> None:
    (ref,) = start(training(how="exit 3", secrets=("TOKEN",)), secrets={"TOKEN": "t0ps3cret"})
    assert ended(ref).exit_code == 3
    refused = rlx("retry", ref.run_id, code=2)
    assert "TOKEN" in refused.stderr
    assert settled(refused.stderr, {ref.run_id: "run"}) == wording
    (hold := ref.run_dir.parent.parent / "secrets").write_text("TOKEN=t0ps3cret\n", encoding="utf-8")
    done = rlx("retry", ref.run_id, "--secret-file", str(hold))
    assert done.stdout == f"{ref.run_id}\n" and "attempt 2" in done.stderr
    assert settled(done.stderr, {ref.run_id: "run"}) == wording
    seen = ended(ref)
    assert (seen.state, seen.attempt) == (RunState.FINISHED, 2)
    assert "from none as 2" in log_of(ref) and "t0ps3cret" not in log_of(ref)
    assert not (ref.run_dir / "env").exists()
    assert (ref.run_dir / "attempts/1/checkpoints/global_step_4").is_dir()
    evidence = read_evidence(RunPaths(ref.run_dir).attempts)
    assert series(evidence, "actor/loss") == {step: float(step) for step in range(1, 7)}
    row = json.loads(rlx("status", ref.run_id, "--json").stdout)["runs"][0]
    assert (row["attempt"], row["verdict"]["status"]) == (2, "valid")
    assert [finding["id"] for finding in row["verdict"]["findings"]] == ["RLX710"]
    assert re.search(r"attempt 2 \(.*\bfailed\b", row["verdict"]["findings"][0]["message"])
    finished = rlx("retry", ref.run_id, "--secret-file", str(hold), code=1)
    assert settled(finished.stderr, {ref.run_id: "run"}) == wording


def test_what_cannot_be_retried_is_said_and_nothing_is_begun(wording: SnapshotAssertion) -> None:
    (ref,) = start(training())
    logged_pid(ref, "pid")
    assert settled(rlx("retry", ref.run_id, code=1).stderr, {ref.run_id: "run"}) == wording
    rlx("retry", "nobody", code=12)
    rlx("stop", ref.run_id, "--grace", "0")
    assert ended(ref).state is RunState.STOPPED
    (ref.run_dir / "checkpoints/latest_checkpointed_iteration.txt").write_text("", encoding="utf-8")
    torn = rlx("retry", ref.run_id, "--from-checkpoint", code=1)
    assert "step 2: latest_checkpointed_iteration.txt" in torn.stderr
    assert settled(torn.stderr, {ref.run_id: "run"}) == wording
    launch = ref.run_dir / "launch.sh"
    as_launched = launch.read_text(encoding="utf-8")
    launch.write_text(f"{as_launched}# another recipe\n", encoding="utf-8")
    changed = rlx("retry", ref.run_id, code=1)
    assert ": launch.sh" in changed.stderr
    assert settled(changed.stderr, {ref.run_id: "run"}) == wording
    launch.write_text(as_launched, encoding="utf-8")
    assert [path.name for path in (ref.run_dir / "attempts").iterdir()] == ["1"]
    assert (ref.run_dir / "stop").exists() and (ref.run_dir / "checkpoints/global_step_2").is_dir()
    first, second = rlx("retry", ref.run_id, "--json"), rlx("retry", ref.run_id, "--json", code=None)
    begun = [json.loads(done.stdout)["runs"][0]["begun"] for done in (first, second) if not done.returncode]
    assert begun[0] is True and True not in begun[1:]
    assert ended(ref).state is RunState.FINISHED
    assert sorted(path.name for path in (ref.run_dir / "attempts").iterdir()) == ["1", "2"]
    shutil.rmtree(ref.run_dir)
    rlx("retry", ref.run_id, code=1)


def test_whoever_waits_begins_what_the_recipe_allows() -> None:
    asked = {"name": "toy", "retry": {"times": 1, "on": ["lost"], "from_checkpoint": True}}
    lost_one, failed = training(recipe=asked), training(how="exit 3", recipe=asked, arm="aqn")
    ref, other = start(lost_one, failed)
    lost(ref)
    ended(other)
    assert json.loads(rlx("status", ref.run_id, "--json").stdout)["runs"][0]["attempt"] == 1
    done = rlx("wait", ref.run_id, other.run_id, code=10)
    assert (lineage(ref)["step"], lineage(ref)["why"]) == (2, "retry.on lost")
    assert not (other.run_dir / "attempts/2").exists()
    said = [line for line in done.stderr.splitlines() if f"{other.run_id}: not retried" in line]
    assert len(said) == 1 and "retry.on" in said[0]
    assert f"{ref.run_id}  finished  valid" in done.stdout and f"{other.run_id}  failed" in done.stdout


def test_the_causes_that_a_recipe_may_name_are_those_of_the_machine() -> None:
    assert causes_of_machine() == MACHINE_CAUSES


def test_on_another_host_and_with_that_host_down(far: Far, wording: SnapshotAssertion) -> None:
    plan = replace(training(how="exit 3"), site=far.site)
    (ref,) = start(plan)
    ended(ref)
    far.go_down()
    down = rlx("retry", ref.run_id, code=4)
    assert "loop" in down.stderr and not (far.folder(ref) / "attempts/2").exists()
    far.loopback.start()
    begun = rlx("retry", ref.run_id, "--from-checkpoint")
    assert settled(begun.stderr, {ref.run_id: "run"}) == wording
    seen = ended(ref)
    assert (seen.state, seen.attempt) == (RunState.FINISHED, 2)
    row = json.loads(rlx("status", ref.run_id, "--json").stdout)["runs"][0]
    assert (row["steps_done"], row["verdict"]["status"]) == (6, "valid")
    (copy,) = home().glob(f"mirror/{ref.run_id}")
    assert (copy / "attempts/2/lineage.json").exists()
