"""What the kernel ended for want of memory, by its own counter: in the diagnosis, and as a reason in the verdict.

`usage` is the file of the sampler, `case.json` how the run ended, `expected.json` which findings there are to be, and
whether the verdict names it, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.evidence import judge, read_evidence
from rlx.evidence.diagnosis import diagnose, read_excerpt
from rlx.evidence.reading.usage_file import read_usage
from rlx.model import Expectations, RunState
from rlx.runs import supervisor
from tests.conftest import CASES

FOLDERS = sorted((CASES / "memory-kills").iterdir())
PLANNED = Expectations(2, (), False, None, 1, "auto", None, False)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_the_kernel_counted_is_said_and_no_more(folder: Path, wording: SnapshotAssertion) -> None:
    case, expected = (
        json.loads((folder / name).read_text(encoding="utf-8")) for name in ("case.json", "expected.json")
    )
    state, evidence = RunState(case["state"]), read_evidence([folder])
    nothing = read_excerpt(iter(()))
    found = diagnose(nothing, state, case.get("exit_code"), kills=evidence.memory_kills).findings
    assert {finding.id: finding.severity.value for finding in found} == expected["findings"]
    assert [finding.message for finding in found] == wording
    with_kills, without = (judge(each, PLANNED, state, arm="aqn") for each in (evidence, read_evidence([])))
    assert (with_kills.sentence != without.sentence) is expected["in_verdict"]
    assert with_kills.sentence == wording
    # It is no charge: nothing else of the verdict changes.
    assert (with_kills.status, len(with_kills.findings)) == (without.status, len(without.findings))


def remove(group: Path) -> None:
    """Remove it once the last process in it is gone, which takes a moment after its end."""
    while True:
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.05)


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """A cgroup of 60 MB, of either version of cgroups."""
    for parent, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup", parent, f"rlx-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(60 << 20), encoding="utf-8")
        except OSError:
            group.rmdir()
            continue
        yield group
        remove(group)
        return
    pytest.skip("this user may not make a cgroup with a limit")


def test_a_real_kill_is_counted_from_the_start_of_the_run_to_its_end(small_cgroup: Path, tmp_path: Path) -> None:
    attempt = tmp_path / "run/attempts/1"
    (attempt / "state").mkdir(parents=True)
    for name in ("claimed", "reserved.leader", "reserved.supervisor"):
        (attempt / "state" / name).touch()
    (tmp_path / "supervise.sh").write_text(supervisor.script(), encoding="utf-8")
    (tmp_path / "run/launch.sh").write_text("python3 -c 'bytearray(200 << 20)'\nexit $?\n", encoding="utf-8")
    enter = f'echo $$ >{small_cgroup}/cgroup.procs; exec sh "$@"'
    words = [str(tmp_path / "supervise.sh"), "run", str(tmp_path / "run"), "0", "cpu", "0"]
    subprocess.run(["sh", "-c", enter, "-", *words], timeout=60, check=False, capture_output=True)
    assert (attempt / "state/exit").read_text(encoding="utf-8").split()[:2] == ["137", "leader"]
    kills = read_usage(attempt).kills
    assert kills is not None and (kills.count, kills.scope) == (1, "cgroup")
