"""A run with digests and a probe that went on from a checkpoint: each attempt is held against its own records alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlx.evidence import judge, read_evidence
from rlx.plan import RunState
from tests.conftest import CASES
from tests.evidence.edits import Recorded
from tests.recorded import recorded_expectations

ARMS = ("aqn", "baseline")


def recorded(arm: str) -> Path:
    return CASES / "logs" / f"probed-{arm}"


def begun(arm: str, folder: Path, last: int) -> Path:
    """The first attempt, which ended after this step."""
    shutil.copytree(recorded(arm), folder)
    run = Recorded(folder)
    run.events = [line for line in run.events if line.get("step", 0) <= last]
    lines = run.log.splitlines(keepends=True)
    run.log = "".join(lines[: 1 + next(index for index, line in enumerate(lines) if f" step:{last} - " in line)])
    run.metrics = [line for line in run.metrics if line["step"] <= last]
    run.write()
    return folder


def resumed(arm: str, folder: Path, after: int) -> Path:
    """The attempt that went on from the checkpoint of a step: it syncs, validates that step and goes on."""
    shutil.copytree(recorded(arm), folder)
    run = Recorded(folder)
    first = next(index for index, line in enumerate(run.events) if line.get("step") == after + 1)
    run.events = [run.events[0], *run.events[first:]]
    run.events[1]["digest_before"] = ""
    for number, line in enumerate(run.events):
        line["seq"] = number
    run.log = (
        f"Setting global step to {after}\n" + run.log[run.log.index("\n", run.log.index(f" step:{after} - ")) + 1 :]
    )
    run.metrics = [line for line in run.metrics if line["step"] > after]
    run.write()
    return folder


@pytest.mark.parametrize(("last", "after"), [(14, 10), (12, 5), (11, 10), (17, 15)])
@pytest.mark.parametrize("arm", ARMS)
def test_a_resumed_run_is_not_accused(arm: str, last: int, after: int, tmp_path: Path) -> None:
    evidence = read_evidence([begun(arm, tmp_path / "1", last), resumed(arm, tmp_path / "2", after)])
    expectations = recorded_expectations(json.loads((recorded(arm) / "expectations.json").read_text()))
    verdict = judge(evidence, expectations, RunState.FINISHED, arm=arm)
    assert verdict.status == "valid", verdict.sentence
    assert not [finding.id for finding in verdict.findings if finding.id.startswith("RLX68")]
