"""launch.sh of verl with `eval: post`, run as supervise.sh runs it; a small program is in the place of verl's trainer.

It leaves what verl leaves: a metrics file and a checkpoint. tests/training/test_eval_post.py has the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlx.backends.verl.backend import plan
from rlx.evidence import VerdictStatus, judge, read_evidence
from rlx.model import Expectations, RunState, Site
from tests.backends.conftest import CPU, MakeRecipe

TRAINER = """
import json, os, pathlib, sys
folder = pathlib.Path(os.environ["RLX_RUN_DIR"], "checkpoints")
(folder / "global_step_2/actor").mkdir(parents=True)
(folder / "latest_checkpointed_iteration.txt").write_text("2")
with open(os.environ["VERL_FILE_LOGGER_PATH"], "w") as file:
    for step in (1, 2):
        file.write(json.dumps({"step": step, "data": {"critic/score/mean": 0.5}}) + chr(10))
print("trained")
sys.exit(int(os.environ["ENDS_WITH"]))
"""


@dataclass
class Done:
    code: int
    log: str
    attempt: Path


Launch = Callable[..., tuple[Done, Expectations]]


@pytest.fixture
def launch(recipe: MakeRecipe, tmp_path: Path) -> Launch:
    """launch(ends_with=0): the trainer's exit code; `rows` are in the file, of 3 that are promised."""

    def run(ends_with: int, rows: int = 3) -> tuple[Done, Expectations]:
        (tmp_path / "trainer.py").write_text(TRAINER, encoding="utf-8")
        row = {"prompt": [{"role": "user", "content": "1+1"}], "reward_model": {"ground_truth": "2"}}
        (tmp_path / "rows.jsonl").write_text((json.dumps(row) + "\n") * rows, encoding="utf-8")
        changes = {
            "backend": {"python": sys.executable, "entrypoint": str(tmp_path / "trainer.py")},
            "reward": "gsm8k",
            "train": {"steps": 2, "save_every": 2},
            "env": {"ENDS_WITH": str(ends_with)},
            "eval": {"post": {"rows": str(tmp_path / "rows.jsonl"), "row_count": 3, "convert": "/bin/false"}},
        }
        launched = plan(recipe(CPU, changes), Site())
        attempt = tmp_path / "run/attempts/1"
        attempt.mkdir(parents=True)
        for file in launched.files:
            path = tmp_path / "run" / file.path
            path.parent.mkdir(exist_ok=True)
            path.write_text(file.content, encoding="utf-8")
        places = {"RLX_RUN": tmp_path.name, "RLX_RUN_DIR": str(tmp_path / "run"), "RLX_ATTEMPT_DIR": str(attempt)}
        with (attempt / "log").open("wb") as log:
            done = subprocess.run(
                ["bash", tmp_path / "run/launch.sh"],
                env={**os.environ, **places, "HOME": str(tmp_path), "RLX_RAY_TMP": str(tmp_path), "RLX_DEVICES": ""},
                stdout=log,
                stderr=log,
                check=False,
            )
        return Done(done.returncode, (attempt / "log").read_text(encoding="utf-8"), attempt), launched.expectations

    return run


def test_a_failed_training_is_not_evaluated(launch: Launch) -> None:
    done, _ = launch(ends_with=7)
    assert done.code == 7
    assert done.log.endswith("trained\n")


def test_rows_that_are_not_there_cost_no_training(launch: Launch) -> None:
    done, _ = launch(ends_with=0, rows=2)
    assert done.code == 1 and "trained" not in done.log
    assert "rows.jsonl has 2 rows, and eval.post.row_count says 3" in done.log.splitlines()[-1]


def test_a_failed_evaluation_fails_the_run_and_keeps_the_training_s_evidence(launch: Launch) -> None:
    done, expectations = launch(ends_with=0)
    assert done.code == 1 and "trained" in done.log
    assert done.log.splitlines()[-1].endswith("/bin/false ended with 1")
    evidence = read_evidence([done.attempt])
    assert evidence.metrics[2]["critic/score/mean"] == 0.5
    verdict = judge(evidence, expectations, RunState.FAILED, arm="main")
    assert verdict.status is VerdictStatus.INCOMPLETE
    assert [finding.id for finding in verdict.findings if finding.id != "RLX706"] == ["RLX801", "RLX702"]
    (unvalidated,) = (finding for finding in verdict.findings if finding.id == "RLX702")
    assert "eval.every" not in unvalidated.fix
