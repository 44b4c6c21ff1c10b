"""One run in other dress: what Ray, loggers, terminals and restarts do to a log changes nothing in its verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.evidence import judge, read_log
from rlx.model import RunState
from tests.conftest import CASES
from tests.recorded import recorded_expectations

CASE = CASES / "evidence" / "fork-declared-validation-noise"
EXPECTED = recorded_expectations(json.loads((CASE / "expectations.json").read_text(encoding="utf-8")))
LOG = (CASE / "log").read_text(encoding="utf-8")
LINES = LOG.splitlines(keepends=True)


def resumed(_: str) -> str:
    """It died after step 16 and went on from the checkpoint of step 12, whose sync is repeated."""
    sync = [line for line in LINES[_after(11) : _after(12)] if "AQN" in line]
    again = ["(TaskRunner pid=9) Setting global step to 12\n", *sync, *LINES[_after(12) :]]
    return "".join([*LINES[: _after(16)], *LINES[:7], *again])


def eight_workers(_: str) -> str:
    each = [range(4242, 4250) if "AQN" in line else range(4242, 4243) for line in LINES]
    return "".join(line.replace("4242", str(pid)) for line, pids in zip(LINES, each, strict=True) for pid in pids)


def folded_by_ray(log: str) -> str:
    return re.sub(r"(excluded layers\)|Target: ALL)$", r"\1 [repeated 7x across cluster]", log, flags=re.MULTILINE)


def without_ray(log: str) -> str:
    return re.sub(r"\x1b\[\d+m|\((?:WorkerDict|TaskRunner) pid=\d+\) ?", "", log)


def glued_to_the_bar(log: str) -> str:
    return re.sub(r"(s/it\])\n", r"\1", log)


def of_windows(log: str) -> str:
    return log.replace("\n", "\r\n")


def _after(step: int) -> int:
    return 1 + next(index for index, line in enumerate(LINES) if f" step:{step} - " in line)


@pytest.mark.parametrize("dress", [resumed, eight_workers, folded_by_ray, without_ray, glued_to_the_bar, of_windows])
def test_the_verdict_stays(dress: Callable[[str], str], tmp_path: Path) -> None:
    dressed = dress(LOG)
    assert dressed != LOG
    (tmp_path / "plain").write_text(LOG, encoding="utf-8")
    (tmp_path / "dressed").write_text(dressed, newline="", encoding="utf-8")
    plain, other = (
        judge(read_log(tmp_path / name, finished=True), EXPECTED, RunState.FINISHED, arm="aqn")
        for name in ("plain", "dressed")
    )
    assert plain.status == other.status == "valid"
    assert other.sentence.removesuffix("; 1 restart") == plain.sentence
