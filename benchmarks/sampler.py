"""What the sampler of a run takes of one core: python -m benchmarks.sampler [--seconds 120] [--program-ms 0]

Runs it as the supervisor would, beside a run that does nothing, with an npu-smi that plays a recorded table after it
has taken so much CPU. The share is by Linux's own count of sampler and children. The first look is on credit, so
that the share of a costly program falls with time. Exits with 1 where the budget is broken.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rlx.evidence.reading.usage_file import read_usage
from rlx.model.run_dir import ATTEMPTS_DIR, STATE_DIR, SUPERVISE_FILE, SUPERVISOR_FILE
from rlx.runs import supervisor

BUDGET = 0.005
TABLE = Path(__file__).parents[1] / "tests/rig/npu_smi/a3-ascend910-busy.txt"
# A loop of the shell takes about so many turns a millisecond; what it really took is measured.
TURNS = 1400
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--program-ms", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = prepared(Path(folder), asked.program_ms)
        began = time.monotonic()
        sampler = started(Path(folder), run)
        time.sleep(asked.seconds)
        ticks = sum(
            map(int, Path(f"/proc/{sampler.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15])
        )
        os.killpg(sampler.pid, signal.SIGKILL)
        sampler.wait()
        samples = len(read_usage(run / ATTEMPTS_DIR / "1").samples)
    share = ticks / TICKS_A_SECOND / (time.monotonic() - began)
    print(f"{samples} samples in {asked.seconds} s: {100 * share:.2f} % of a core (at most {100 * BUDGET} %)")
    return share > BUDGET


def prepared(folder: Path, program_ms: int) -> Path:
    """A run directory whose supervisor is this process, and an npu-smi."""
    state = folder / "run" / ATTEMPTS_DIR / "1" / STATE_DIR
    state.mkdir(parents=True)
    tick = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    boot, node = (
        Path(f"/proc/sys/kernel/{name}").read_text(encoding="utf-8").strip() for name in ("random/boot_id", "hostname")
    )
    (state / SUPERVISOR_FILE).write_text(f"{os.getpid()} {tick} {boot} {node}\n", encoding="utf-8")
    (folder / SUPERVISE_FILE).write_text(supervisor.script(), encoding="utf-8")
    program = folder / "npu-smi"
    turns = TURNS * program_ms
    program.write_text(
        f"#!/bin/sh\ni=0; while [ $i -lt {turns} ]; do i=$((i + 1)); done\ncat {TABLE}\n", encoding="utf-8"
    )
    program.chmod(0o755)
    return folder / "run"


def started(folder: Path, run: Path) -> subprocess.Popen[bytes]:
    command = ["sh", str(folder / SUPERVISE_FILE), "sample", str(run), "npu", " ".join(map(str, range(16)))]
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.Popen(command, env={**os.environ, "PATH": path}, start_new_session=True)


if __name__ == "__main__":
    sys.exit(main())
