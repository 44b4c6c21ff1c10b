"""launch.sh with a real Ray and logical NPUs; stand_in/cli/train_grpo.py is in the place of MindSpeed-RL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlx.evidence import VerdictStatus, judge, read_evidence, read_items
from rlx.model import RunState, Severity
from rlx.resources import payload_folder
from tests.backends.mindspeed_rl import log_lines
from tests.backends.mindspeed_rl.conftest import STAND_IN, MakeRecipe, Start, file_of, planned


@pytest.mark.contract
def test_a_run_to_its_end(start: Start) -> None:
    run = start({"env": {"SAID": "by the recipe"}})
    assert run.end() == 0, run.log
    assert "SAID=by the recipe" in run.log and "TASK_QUEUE_ENABLE=2" in run.log
    assert {line.rpartition(" ")[2] for line in run.log.splitlines() if " on NPU " in line} == {"0", "1"}
    assert run.leaves_nothing(), run.left()
    assert not list(STAND_IN.rglob("outputs")), "Hydra leaves nothing in the checkout"
    evidence = read_evidence([run.folder / "attempts/1"])
    verdict = judge(evidence, run.launch.expectations, RunState.FINISHED, arm="main")
    assert {finding.id for finding in verdict.findings if finding.severity is not Severity.NOTE} == {"RLX724"}
    assert verdict.status is VerdictStatus.UNVERIFIED, verdict.sentence
    assert evidence.last_step == 4


# In the place of MindSpeed-LLM's converter: a random model, whatever the checkpoint is.
CONVERT = f"""#!/bin/sh
exec {sys.executable} {payload_folder() / "tiny_model.py"} "$2" '{{"model_type": "qwen2", "chat": "chatml", "config":
 {{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
   "num_attention_heads": 2, "num_key_value_heads": 2}}}}'
"""
ROWS = [
    {"prompt": [{"role": "user", "content": f"{n}+1=?"}], "reward_model": {"ground_truth": str(n + 1)}}
    for n in range(5)
]


def post(tmp_path: Path, convert: str) -> dict[str, Any]:
    """On a host without NPUs transformers answers on the CPU, which is not what a recipe for NPUs would ask for."""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    (tmp_path / "convert.sh").write_text(convert, encoding="utf-8")
    (tmp_path / "convert.sh").chmod(0o700)
    (tmp_path / "grade.py").write_text(
        "def compute_score(solution_str, **_):\n    return len(solution_str) % 2\n", encoding="utf-8"
    )
    rows = {"rows": str(tmp_path / "rows.jsonl"), "row_count": 5, "convert": str(tmp_path / "convert.sh")}
    reward = {"path": "grade.py"}
    return {
        "data": {"max_response_tokens": 8},
        "eval": {"post": {**rows, "reward": reward, "engine": "transformers"}},
    }


def test_the_last_checkpoint_is_evaluated_after_the_training(start: Start, tmp_path: Path) -> None:
    run = start(post(tmp_path, CONVERT), on_cpu=True)
    assert run.end() == 0, run.log
    assert run.leaves_nothing(), run.left()
    evidence = read_evidence([run.folder / "attempts/1"])
    verdict = judge(evidence, run.launch.expectations, RunState.FINISHED, arm="main")
    # RLX781: the stand-in gives one answer to all questions.
    found = {finding.id for finding in verdict.findings if finding.severity is not Severity.NOTE}
    assert found == {"RLX724", "RLX781"}
    metric = run.launch.expectations.metric
    assert metric == "val-core/post/acc/mean@1"
    items = read_items(run.folder / "attempts/1/validation", 4, metric)
    assert items is not None and len(items.scores) == 5
    assert evidence.metrics[4][metric] == pytest.approx(items.mean)
    assert "grpo/score/mean" in evidence.metrics[4], "the training's own metrics stay"
    assert not (run.folder / "attempts/1/converted").exists()


def test_a_failed_evaluation_fails_the_run_and_keeps_the_training_s_evidence(start: Start, tmp_path: Path) -> None:
    run = start(post(tmp_path, "#!/bin/sh\nexit 7\n"), on_cpu=True)
    assert run.end() == 1, run.log
    assert run.log.splitlines()[-1].endswith("convert.sh ended with 7")
    evidence = read_evidence([run.folder / "attempts/1"])
    verdict = judge(evidence, run.launch.expectations, RunState.FAILED, arm="main")
    assert verdict.status is VerdictStatus.INCOMPLETE
    assert {finding.id for finding in verdict.findings} == {"RLX801", "RLX702", "RLX724"}
    assert evidence.last_step == 4
    assert run.leaves_nothing(), run.left()


WAITS, WAITS_SHORTLY = (f"await_resources(settings, {until})" for until in ("deadline", "time.monotonic() + 10"))


def test_too_few_cpus_are_told_instead_of_waited_for(start: Start) -> None:
    cpus = (os.cpu_count() or 1) + 1
    change = {"actor_config.load": "/w", "rl_config.num_cpus_for_placement_group": cpus}
    # Ray's start has all the time that it may take; what Ray lacks then is not waited for as long.
    run = start({"overrides": change}, edit=lambda text: text.replace(WAITS, WAITS_SHORTLY))
    assert run.end() == 1
    assert log_lines.FEW_CPUS.format(2 * cpus + 2) in run.log
    assert log_lines.NOTHING_STARTED in run.log and "num_cpus_for_placement_group" in run.log
    assert run.leaves_nothing(), run.left()


def test_two_runs_at_once_do_not_meet(start: Start) -> None:
    """A worker of one is killed: that run fails. The other one goes on, until it is stopped."""
    endless = {"train": {"steps": 100_000}}
    one = start(endless)
    one.wait_for("iteration: 2 / ")
    # Ray brings the lines of two processes in whatever order it finds them.
    log = one.wait_for(" on NPU 0")
    other = start(endless)
    other.wait_for("iteration: 2 / ")
    victim = next(line.split("worker ")[1].split()[0] for line in log.splitlines() if " on NPU 0" in line)
    os.kill(int(victim), signal.SIGKILL)
    assert one.end() == 1
    assert one.leaves_nothing(), one.left()
    done = other.log.count(" iteration: ")
    other.wait_for(f" iteration: {done + 5} / ")
    os.killpg(other.process.pid, signal.SIGTERM)
    assert other.end() == 143
    assert other.leaves_nothing(), other.left()


def test_a_training_that_is_killed_ends_the_run(start: Start) -> None:
    """Ray begins a task again whose process died, as the kernel's memory killer ends it: beside the workers of the
    first one, whose NPUs it would wait for without end."""
    run = start({"train": {"steps": 100_000}})
    run.wait_for("iteration: 2 / ")
    run.kill("ray::train")
    assert run.end() == 1
    assert run.log.count("sync start grpo training") == 1
    assert run.leaves_nothing(), run.left()


def test_a_ray_that_dies_ends_the_run(start: Start) -> None:
    run = start({"train": {"steps": 100_000}})
    run.wait_for("iteration: 2 / ")
    idle = [pid for pid, command in run.processes().items() if "ray::IDLE" in command]
    assert not [pid for pid in idle if is_of_no_job(pid)], "Ray keeps none for each CPU"
    run.kill(f"{run.folder}/payload/rlx_ray.py")
    assert run.end() != 0
    assert log_lines.RAY_ENDED in run.log
    assert run.leaves_nothing(), run.left()


def is_of_no_job(pid: int) -> bool:
    """As what Ray starts before anything is asked of it. One of the training is a worker that came second, and idle."""
    try:
        return b"RAY_JOB_ID=ffffffff" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone
        return False


def test_other_devices_than_its_workers_take_are_refused(start: Start) -> None:
    run = start(edit=lambda text: text.replace("set -euo pipefail", "set -euo pipefail\nRLX_DEVICES=2,3"))
    assert run.end() == 1
    assert log_lines.OTHER_NPUS.format("0,1", "2,3") in run.log


def test_the_script_is_clean_for_shellcheck(recipe: MakeRecipe, tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(file_of(planned(recipe()), "launch.sh"), encoding="utf-8")
    checker = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run(
        [checker, tmp_path / "launch.sh"], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout
