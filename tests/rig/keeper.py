"""Clears up behind a rig, however its owner ended: processes, control groups, files.

    python -I keeper.py FOLDER SWITCH_PID COUNT

stdin is a pipe whose other end only the owner holds. A `kill -9` of the owner closes it as surely as an orderly end.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

FIRST_NAMESPACE = 100
PATIENCE_S = 20


def network_of(process: Path) -> int | None:
    try:
        return (process / "ns/net").stat().st_ino
    except OSError:
        return None


def members(networks: set[int]) -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if network_of(entry) in networks]


def kill_members(networks: set[int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (pids := members(networks)) and time.monotonic() < deadline:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def remove_control_groups(name: str) -> None:
    """Docker's groups stay behind when its namespace ends; a group is busy until its last process is reaped."""
    deadline = time.monotonic() + PATIENCE_S
    while (groups := control_groups(name)) and time.monotonic() < deadline:
        for group in groups:
            with suppress(OSError):
                group.rmdir()
        time.sleep(0.01)


def control_groups(name: str) -> list[Path]:
    """Inner ones first. Version 2 has one hierarchy, version 1 one for each controller."""
    tops = [*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")]
    return [Path(folder) for top in tops for folder, _, _ in os.walk(top, topdown=False)]


def main() -> None:
    folder, switch, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # Held open: a number that is free again might be given to the network of somebody else.
    held = [os.open(f"/proc/{switch}/fd/{FIRST_NAMESPACE + number}", os.O_RDONLY) for number in range(count + 1)]
    print("ok", flush=True)
    sys.stdin.read()
    kill_members({os.fstat(namespace).st_ino for namespace in held})
    remove_control_groups(folder.name)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
