"""launch.sh with a real Ray and logical NPUs; stand_in/cli/train_grpo.py is in the place of MindSpeed-RL."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlx.evidence import VerdictStatus, judge, read_evidence
from rlx.plan import LaunchPlan, RunState, Severity, Site
from tests.backends.mindspeed_rl.conftest import MakeRecipe, file_of, planned

STAND_IN = Path(__file__).with_name("stand_in")
# Ray takes its time to start where many tests run at once; nothing here waits for as long as that on a healthy machine.
PATIENCE_S = 300
SMALL: dict[str, Any] = {
    "backend": {"workdir": str(STAND_IN), "python": sys.executable},
    "train": {"batch_size": 2, "mini_batch_size": 2, "micro_batch_size": 1, "steps": 4},
    "layout": {"devices_per_node": 2, "tp": 1, "pp": 1},
    "overrides": {"actor_config.load": "/w", "rl_config.num_cpus_for_placement_group": 0},
}


@dataclass
class Run:
    launch: LaunchPlan
    folder: Path
    ray: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "attempts/1/log").read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text: str) -> str:
        """The log, once the text is in it; fails at once if the run ends without it."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.log:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.2)
        return self.log

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def left(self) -> list[str]:
        """Processes that carry the run in their environment, as supervise.sh finds its members."""
        mark = f"RLX_RUN={self.folder.name}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0") and (entry / "cmdline").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (OSError, ValueError):
                continue
        return found


Start = Callable[..., Run]


@pytest.fixture
def start(recipe: MakeRecipe, tmp_path: Path) -> Iterator[Start]:
    """start({...}): launch.sh runs as supervise.sh would run it, in a session of its own."""
    runs: list[Run] = []

    def launch(*changes: dict[str, Any], edit: Callable[[str], str] = str) -> Run:
        plan = planned(recipe(SMALL, *changes), Site())
        name = f"run-{os.getpid()}-{len(runs)}"
        folder = tmp_path / name
        for file in plan.files:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(edit(file.content) if file.path == "launch.sh" else file.content)
        (folder / "attempts/1").mkdir(parents=True)
        ray = Path(tempfile.mkdtemp(prefix="rlx-", dir="/tmp"))
        (ray / "token").write_text("0" * 64)
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "RLX_"))},
            "HOME": str(tmp_path),
            "RLX_RUN": name,
            "RLX_RUN_DIR": str(folder),
            "RLX_ATTEMPT_DIR": str(folder / "attempts/1"),
            "RLX_RAY_TMP": str(ray),
            "RLX_DEVICES": "0,1",
        }
        with (folder / "attempts/1/log").open("wb") as log:
            process = subprocess.Popen(
                ["bash", folder / "launch.sh"], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        runs.append(Run(plan, folder, ray, process))
        return runs[-1]

    yield launch
    for run in runs:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
        subprocess.run(["rm", "-rf", run.ray], check=True)


def nothing_left(run: Run) -> bool:
    """What Ray's own processes take to see that their head is gone is not the question."""
    deadline = time.monotonic() + 60
    while run.left() and time.monotonic() < deadline:
        time.sleep(0.5)
    return run.left() == []


def test_a_run_to_its_end(start: Start) -> None:
    run = start({"env": {"SAID": "by the recipe"}})
    assert run.end() == 0, run.log
    assert "SAID=by the recipe" in run.log and "TASK_QUEUE_ENABLE=2" in run.log
    assert {line.rpartition(" ")[2] for line in run.log.splitlines() if " on NPU " in line} == {"0", "1"}
    assert nothing_left(run), run.left()
    assert not list(STAND_IN.rglob("outputs")), "Hydra leaves nothing in the checkout"
    evidence = read_evidence([run.folder / "attempts/1"])
    verdict = judge(evidence, run.launch.expectations, RunState.FINISHED, arm="main")
    assert {finding.id for finding in verdict.findings if finding.severity is not Severity.NOTE} == {"RLX724"}
    assert verdict.status is VerdictStatus.UNVERIFIED, verdict.sentence
    assert evidence.last_step == 4


def test_too_few_cpus_are_told_instead_of_waited_for(start: Start) -> None:
    cpus = (os.cpu_count() or 1) + 1
    change = {"actor_config.load": "/w", "rl_config.num_cpus_for_placement_group": cpus}
    run = start({"overrides": change}, edit=lambda text: text.replace(" 120 ", " 30 "))
    assert run.end() == 1
    assert f"of {2 * cpus + 2} CPUs that MindSpeed-RL waits for" in run.log
    assert "nothing was started" in run.log and "num_cpus_for_placement_group" in run.log
    assert nothing_left(run), run.left()


def test_two_runs_at_once_do_not_meet(start: Start) -> None:
    """A worker of one is killed: that run fails. The other one goes on, until it is stopped."""
    endless = {"train": {"steps": 100_000}}
    one = start(endless)
    log = one.wait_for("iteration: 2 / ")
    other = start(endless)
    other.wait_for("iteration: 2 / ")
    victim = next(line.split("worker ")[1].split()[0] for line in log.splitlines() if " on NPU 0" in line)
    os.kill(int(victim), signal.SIGKILL)
    assert one.end() == 1
    assert nothing_left(one), one.left()
    done = other.log.count(" iteration: ")
    other.wait_for(f" iteration: {done + 5} / ")
    os.killpg(other.process.pid, signal.SIGTERM)
    assert other.end() == 143
    assert nothing_left(other), other.left()


def test_a_ray_that_dies_ends_the_run(start: Start) -> None:
    run = start({"train": {"steps": 100_000}})
    run.wait_for("iteration: 2 / ")
    heads = subprocess.run(
        ["pgrep", "-f", f"{run.folder}/payload/mindspeed_rl_ray.py"], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(heads[0]), signal.SIGKILL)
    assert run.end() != 0
    assert "Ray ended before the training" in run.log
    assert nothing_left(run), run.left()


def test_other_devices_than_its_workers_take_are_refused(start: Start) -> None:
    run = start(edit=lambda text: text.replace("set -euo pipefail", "set -euo pipefail\nRLX_DEVICES=2,3"))
    assert run.end() == 1
    assert "the NPUs 0,1 only, not on 2,3" in run.log


NOISY: dict[str, Any] = {
    "backend": {"entrypoint": "cli/train_tiny.py"},
    "train": {"steps": 6},
    "aqn": {"sigma_start": 0.05, "sigma_end": 0.02, "stages": 3},
}


def test_noise_on_the_weights_that_generate(start: Start) -> None:
    """Each rank is an engine of its own here. Stage 1 of 3 is free of noise: iterations 1 and 2."""
    pytest.importorskip("torch")
    run = start(NOISY)
    assert run.end() == 0, run.log
    generated = [line.partition(" generated with ")[2] for line in run.log.splitlines() if " generated with " in line]
    kinds = ("input_layernorm", "post_attention_layernorm")
    norms = [f"layers.{layer}.{kind}.weight" for layer in (0, 1) for kind in kinds]
    noisy = f"other weights than trained: {' '.join([*norms, 'norm.weight'])}"
    assert generated == 4 * ["other weights than trained: none"] + 8 * [noisy]
    evidence = read_evidence([run.folder / "attempts/1"])
    assert sorted((event.step or 0, event.replica, event.sigma) for event in evidence.noise) == [
        (step, rank, sigma) for step, sigma in enumerate((0.0, 0.0, 0.05, 0.05, 0.02, 0.02), 1) for rank in (0, 1)
    ]
    verdict = judge(evidence, run.launch.expectations, RunState.FINISHED, arm="main")
    assert {finding.id for finding in verdict.findings} == {"RLX608", "RLX724"}, "no second witness, no real log"
    assert verdict.status is VerdictStatus.UNVERIFIED, verdict.sentence
    assert nothing_left(run), run.left()


@pytest.fixture
def engine_file(tmp_path: Path) -> Path:
    """Of a checkout of its own."""
    pytest.importorskip("torch")
    shutil.copytree(STAND_IN, tmp_path / "own", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "own/mindspeed_rl/models/rollout/vllm_engine.py"


def test_noise_without_its_place_ends_the_run_before_ray_starts(
    start: Start, tmp_path: Path, engine_file: Path
) -> None:
    engine_file.write_text(engine_file.read_text().replace("def sync_model_weights", "def load_model_weights"))
    run = start(NOISY, {"backend": {"workdir": str(tmp_path / "own")}})
    assert run.end() == 1
    assert "RLX641 aqn: mindspeed_rl in" in run.log and "Traceback" not in run.log, run.log
    assert "VLLMInferEngine.sync_model_weights is missing (fix: use an unchanged MindSpeed-RL" in run.log
    assert not list((run.folder / "attempts/1").glob("events/*"))
    assert nothing_left(run), run.left()


def test_a_worker_that_would_train_clean_ends_the_run(start: Start, tmp_path: Path, engine_file: Path) -> None:
    """Its MindSpeed-RL is another one than that which launch.sh looked at, as it may be on another machine."""
    looked_at = '|| echo "rlx: no record of versions and data" >&2\n'
    change = f"sed -i s/sync_model_weights/load_model_weights/ {engine_file}\n"
    away = {"backend": {"workdir": str(tmp_path / "own")}}
    run = start(NOISY, away, edit=lambda text: text.replace(looked_at, looked_at + change))
    assert run.end() != 0
    assert "VLLMInferEngine.sync_model_weights is missing (fix: use an unchanged MindSpeed-RL" in run.log
    assert " iteration: " not in run.log
    assert nothing_left(run), run.left()


def test_the_script_is_clean_for_shellcheck(recipe: MakeRecipe, tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(file_of(planned(recipe()), "launch.sh"))
    checker = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([checker, tmp_path / "launch.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
