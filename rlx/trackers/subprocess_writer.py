"""Write for a tracker in a separate process: its package prints, starts servers and keeps global state.

    python -P -m rlx.trackers.subprocess_writer NAME FOLDER < runs.json

The process has no logins or settings of the user: none of their variables, and an empty home.
"""

from __future__ import annotations

import json
import os
import signal
import site
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from rlx.errors import RlxError
from rlx.trackers.exported_run import ExportedRun
from rlx.trackers.tracker_table import Tracker, tracker_of

_KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_MOST_S = 600
_POINTS_A_SECOND = 100  # a tenth of what the slowest was seen to take
_TAIL, _LONGEST_WORDS = 4000, 300


def write_apart(name: str, runs: Sequence[ExportedRun], folder: Path) -> None:
    """Write the runs for a tracker. Raises RlxError with the last line of output if it fails or takes too long."""
    limit = _MOST_S + sum(len(run.points) for run in runs) // _POINTS_A_SECOND
    command = [sys.executable, "-P", "-m", __name__, name, str(folder.absolute())]
    with tempfile.TemporaryDirectory(prefix="rlx-export-") as home, tempfile.TemporaryFile() as said:
        order = Path(home) / "runs.json"
        order.write_text(json.dumps([run.as_order() for run in runs]), encoding="utf-8")
        with order.open("rb") as orders:
            code = _run(command, {**_environment(tracker_of(name), folder), "HOME": home}, orders, said, folder, limit)
        if code is None:
            raise RlxError(f"{name} did not write these runs within {limit} s", "fewer runs at a time")
        if code != 0:
            raise RlxError(
                f"{name} could not write these runs: {_last_words(said)}", "another --to, such as tensorboard"
            )


def _run(
    command: Sequence[str], environment: dict[str, str], order: IO[bytes], said: IO[bytes], folder: Path, limit: float
) -> int | None:
    """Return the exit code, None after a timeout. Processes that it started end with it."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=order, stdout=said, stderr=said, start_new_session=True
    )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(tracker: Tracker, folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    packages = {"PYTHONUSERBASE": site.getuserbase()}  # else below HOME
    return {**kept, **packages, "LC_ALL": "C.UTF-8", **tracker.environment(folder.absolute())}


def _last_words(said: IO[bytes]) -> str:
    said.seek(max(0, os.fstat(said.fileno()).st_size - _TAIL))
    lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:_LONGEST_WORDS] if lines else "it printed nothing"


def main(name: str, folder: str) -> None:
    runs = [ExportedRun.of_order(order) for order in json.load(sys.stdin)]
    tracker_of(name).write(runs, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
