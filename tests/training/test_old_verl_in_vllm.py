"""The noise in the extension of vLLM's worker that verl 0.7.1 and 0.8.0 bring, in a real vLLM engine on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rlx.resources import payload_folder
from tests.conftest import REPOSITORY
from tests.wheels import verl_folder

PYTHON = REPOSITORY / ".venv-engines/bin/python"
PROGRAMS = Path(__file__).with_name("old_verl")
SETTINGS = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 3, "total_steps": 6, "seed": 1}

pytestmark = [
    pytest.mark.training,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with vLLM: make engines"),
]


def driven(version: str, run_dir: Path) -> dict[str, Any]:
    """What a real engine with that verl's extension showed, and the records that its hook wrote."""
    (run_dir / "payload").mkdir(parents=True)
    (run_dir / "payload/aqn.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    path = [PROGRAMS, verl_folder(version).parent, payload_folder(), payload_folder("verl")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "VERL_USE_EXTERNAL_MODULES": "old_verl_on_cpu,rlx_verl_hook",
        "RLX_RUN_DIR": str(run_dir),
        "RLX_ATTEMPT_DIR": str(run_dir),
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    model = Path.home() / ".cache/rlx/tiny-cpu/model-heads-32"
    command = [PYTHON, "-W", "ignore", PROGRAMS / "drive_extension.py", model]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=900, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr[-6000:]
    # vLLM has more to say when it ends.
    (line,) = (line for line in done.stdout.splitlines() if line.startswith('{"verl"'))
    seen: dict[str, Any] = json.loads(line)
    files = (run_dir / "events").iterdir()
    seen["events"] = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return seen


@pytest.mark.parametrize("version", ["0.7.1", "0.8.0"])
def test_the_noise_comes_and_goes_in_the_real_engine(version: str, tmp_path: Path) -> None:
    seen = driven(version, tmp_path / "run")
    assert seen["verl"].startswith(version)
    clean = seen["synced"]
    assert seen["dummy"] != clean
    assert sum(text.strip() == str(i // 10 + i % 10) for i, text in enumerate(seen["answers"])) > 40
    assert seen["step 1"] == clean
    assert seen["step 4"] != clean and seen["noisy answers"] != seen["answers"]
    assert seen["validation"] == clean and seen["validated answers"] == seen["answers"]
    assert seen["step 4 again"] == seen["step 4"]
    assert seen["synced without norms"] == clean
    noisy = [event for event in seen["events"] if event.get("kind") == "noise" and event["sigma"] > 0]
    assert [(event["phase"], event["step"], event["layers"]) for event in noisy] == [("rollout", 4, 5)] * 2
    assert noisy[0]["fingerprint"] == noisy[1]["fingerprint"] != ""
