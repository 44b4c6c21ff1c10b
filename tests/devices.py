"""A machine with device nodes: this one, with another /dev. Nothing here is an NPU; only its names are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# A /dev of its own in a mount namespace of its own, which lasts as long as the process that says `ready`.
_SETUP = r"""
mount --make-rprivate / || exit
mount -t tmpfs -o mode=755 dev "$1" || exit
for node in "null 3" "zero 5" "full 7" "random 8" "urandom 9"; do
    mknod -m 666 "$1/${node% *}" c 1 "${node#* }" || exit
done
mknod -m 666 "$1/tty" c 5 0
mkdir "$1/pts" "$1/shm"
mount --bind /dev/pts "$1/pts" && mount --bind /dev/shm "$1/shm" || exit
ln -s pts/ptmx "$1/ptmx"
ln -s /proc/self/fd "$1/fd"
shift_to=$1
shift
for name in "$@"; do mknod -m 666 "$shift_to/$name" c 1 3 || exit; done
mount --move "$shift_to" /dev || exit
echo ready
exec sleep infinity
"""


# With processes and a network of its own: what ends every Python of the machine ends those alone.
_ALONE = ("--pid", "--net", "--fork", "--mount-proc", "--kill-child")


@contextmanager
def machine_with(folder: Path, monkeypatch: pytest.MonkeyPatch, *nodes: str, is_alone: bool = False) -> Iterator[Path]:
    """While it lasts, the local host has these nodes in its /dev. Yields a folder for programs, first on its PATH.

    `is_alone`: it has processes and ports of its own, too, and nothing that runs there reaches this machine's.
    """
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("device nodes of our own need root and a mount namespace")
    programs, dev = folder / "programs", folder / "dev"
    programs.mkdir()
    dev.mkdir()
    keeper = subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", *(_ALONE if is_alone else ())),
            *("sh", "-c", _SETUP, "devices", str(dev), *nodes),
        ],
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        assert keeper.stdout is not None
        if keeper.stdout.readline() != "ready\n":
            pytest.skip("this kernel does not let us have a mount namespace")
        shell, pid, spaces = shutil.which("sh"), str(keeper.pid), "--mount"
        if is_alone:
            pid = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()[0]
            spaces = "--mount --net --pid"
            subprocess.run(["nsenter", "--net", "--target", pid, "ip", "link", "set", "lo", "up"], check=True)
        # Inside, the number of that process means another one.
        enter = f'[ -z "$TEST_IS_INSIDE" ] || exec {shell} "$@"\nexport TEST_IS_INSIDE=1\n' if is_alone else ""
        (programs / "sh").write_text(
            f'#!{shell}\n{enter}exec nsenter {spaces} --target {pid} {shell} "$@"\n', encoding="utf-8"
        )
        (programs / "sh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        yield programs
    finally:
        keeper.kill()
        keeper.wait()
        if keeper.stdout:
            keeper.stdout.close()


def put_program(folder: Path, name: str, script: str) -> None:
    (folder / f"{name}.new").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / f"{name}.new").chmod(0o755)
    (folder / f"{name}.new").rename(folder / name)
