"""A real training, killed in the middle of a checkpoint, goes on from the last whole one and is judged valid."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Laptop, processes_of

PATIENCE_S = 600
STEPS, KILLED_AT, WHOLE = 6, 4, 2
SHORT = {"train.steps": STEPS, "train.save_every": 2, "eval.every": 2, "arms.aqn.aqn.stages": 3}

pytestmark = [pytest.mark.training, pytest.mark.timeout(3 * PATIENCE_S)]


def killed_in_a_checkpoint(laptop: Laptop, run: str, unfinished: Path) -> None:
    """Kill all of the run at once, while it writes this file: a pipe without a reader holds it there."""
    unfinished.parent.mkdir(parents=True)
    os.mkfifo(unfinished)
    laptop.until(run, lambda row: any(unfinished.parent.glob("actor/*.pt")), PATIENCE_S)
    run_dir = unfinished.parents[2]
    # First who would record an end: a machine that restarts leaves nobody the time.
    for name in ("latest/state/supervisor", "latest/state/leader", "holder"):
        kill(int((run_dir / name).read_text(encoding="utf-8").split()[0]))
    while left := processes_of(run):
        for pid in left:
            kill(pid)
    assert laptop.status(run)[0]["state"] == "lost"


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def noise(attempt: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """The noise events of an attempt by phase and step."""
    texts = [path.read_text(encoding="utf-8") for path in (attempt / "events").glob("*.jsonl")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    return {(line["phase"], line["step"]): line for line in lines if line["kind"] == "noise"}


def test_verl_goes_on_from_the_last_whole_checkpoint(tmp_path: Path, new_laptop: Any) -> None:
    laptop = new_laptop()
    sets = [word for key, value in SHORT.items() for word in ("--set", f"{key}={value}")]
    (run,) = laptop.launch("--arm", "aqn", *sets)
    run_dir = Path(laptop.status(run)[0]["run_dir"])
    killed_in_a_checkpoint(laptop, run, run_dir / f"checkpoints/global_step_{KILLED_AT}/data.pt")
    begun = laptop.rlx("retry", run, "--from-checkpoint")
    assert re.search(rf"attempt 2 .*\(global_step_{WHOLE}\)", begun.stderr), begun.stderr
    assert re.search(rf"step {KILLED_AT}: .*data\.pt", begun.stderr), begun.stderr
    laptop.rlx("wait", run, timeout_s=PATIENCE_S)
    (row,) = laptop.status(run)
    assert (row["state"], row["attempt"], row["verdict"]["status"]) == ("finished", 2, "valid"), row
    assert [finding["id"] for finding in row["verdict"]["findings"]] == ["RLX710"], row
    assert f"step {WHOLE}" in row["verdict"]["findings"][0]["message"]
    assert "1 restart" in row["verdict"]["sentence"]
    first, second = (noise(run_dir / f"attempts/{number}") for number in (1, 2))
    assert {step for phase, step in second if phase == "rollout"} == {*range(WHOLE + 1, STEPS + 2)}
    # The schedule goes by the step of the run, and so does what is drawn for it.
    again = [("rollout", step) for step in range(WHOLE + 1, KILLED_AT + 1)]
    for key in again:
        assert (first[key]["sigma"], first[key]["fingerprint"]) == (second[key]["sigma"], second[key]["fingerprint"])
    assert first[again[0]]["sigma"] > 0
