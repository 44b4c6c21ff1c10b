"""A follow of a log that a rotation copies and cuts: it goes on, and says that lines may be missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from rlx.runs import RunPaths
from tests.runs.toys import start_one, until
from tests.wording import settled

# Long at once, so that the follow is sure to see the log before it has grown to where it was.
NUMBERS = """
seq 100000 | sed 's/^/before /'
i=0
while [ ! -e $RLX_RUN_DIR/go ]; do i=$((i + 1)); echo line $i; sleep 0.05; done
echo the end
"""


def test_a_follow_over_a_cut_log_says_so(tmp_path: Path, wording: SnapshotAssertion) -> None:
    ref = start_one(NUMBERS)
    shown, told, log = tmp_path / "shown", tmp_path / "told", RunPaths(ref.run_dir).log
    with shown.open("wb") as out, told.open("wb") as err:
        command = [sys.executable, "-m", "rlx", "logs", "-f", ref.run_id]
        follow = subprocess.Popen(command, stdout=out, stderr=err)
        until(lambda: b"line 40" in shown.read_bytes(), "it follows")
        log.write_bytes(b"")
        until(lambda: told.stat().st_size, "it says that the log was cut")
        before = shown.stat().st_size
        until(lambda: shown.stat().st_size > before, "it goes on")
        (ref.run_dir / "go").touch()
        assert follow.wait(timeout=60) == 0
    lines = shown.read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "the end"
    numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
    assert numbers == sorted(set(numbers)), "no line twice"
    assert settled(told.read_text(encoding="utf-8"), {ref.run_id: "run"}) == wording
