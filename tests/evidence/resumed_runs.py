"""A recorded run as two attempts: one that was killed, and one that went on from a checkpoint; and edits of both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rlx.model import to_jsonable
from rlx.model.attempt_lineage import Lineage
from tests.conftest import CASES
from tests.evidence.edits import Recorded

LINEAGE = Lineage(2, "lost", "its processes are gone", "2026-11-24T17:00:00+00:00", "me@laptop", 10, "global_step_10")


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


def two_attempts(arm: str, last: int, after: int, edit: str, folder: Path) -> list[Path]:
    """Killed after `last`, gone on after `after`, with its lineage; then the second attempt is edited."""
    first, second = begun(arm, folder / "1", last), resumed(arm, folder / "2", after)
    told = replace(LINEAGE, step=after, checkpoint=f"global_step_{after}")
    (second / "lineage.json").write_text(json.dumps(to_jsonable(told)), encoding="utf-8")
    if edit:
        SEAM_EDITS[edit](second, after)
    return [first, second]


def _without_the_first_noise(second: Path, after: int) -> None:
    """The first step after the seam has no record: what the killed attempt recorded of it was thrown away."""
    run = Recorded(second)
    run.events = [line for line in run.events if (line.get("phase"), line.get("step")) != ("rollout", after + 1)]
    for number, line in enumerate(run.events):
        line["seq"] = number
    run.write()


def _with_another_seed(second: Path, after: int) -> None:
    run = Recorded(second)
    for line in run.told():
        line["seed"] += 1
    run.write()


def _without_lineage(second: Path, after: int) -> None:
    """A restart that nobody tells of: no lineage, and no line about the checkpoint."""
    (second / "lineage.json").unlink()
    run = Recorded(second)
    run.log = run.log.partition("\n")[2]
    run.write()


def _from_another_checkpoint(second: Path, after: int) -> None:
    run = Recorded(second)
    run.log = run.log.replace(f"Setting global step to {after}", f"Setting global step to {after - 5}")
    run.write()


def _lacking_a_step(second: Path, after: int) -> None:
    run = Recorded(second)
    run.log = "".join(line for line in run.log.splitlines(keepends=True) if f" step:{after + 1} - " not in line)
    run.metrics = [line for line in run.metrics if line["step"] != after + 1]
    run.write()


SEAM_EDITS: dict[str, Callable[[Path, int], None]] = {
    "first-noise-missing": _without_the_first_noise,
    "another-seed": _with_another_seed,
    "no-lineage": _without_lineage,
    "another-checkpoint": _from_another_checkpoint,
    "step-missing": _lacking_a_step,
}
