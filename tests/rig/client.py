"""The machine in front of the user, where rlx and ssh run. Of its files, /root, /etc, /run and /tmp are its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tests.command import run_rlx
from tests.rig.machine import REPOSITORY, Machine

T = TypeVar("T")

_CLONE_FS, _CLONE_NEWNS, _CLONE_NEWNET = 0x200, 0x20000, 0x40000000


class Client(Machine):
    """Processes on it are ordinary children of the tests: their pids and signals mean what they always mean."""

    @property
    def ssh_folder(self) -> Path:
        """`~/.ssh` as the client's ssh sees it."""
        return self.folder / "root/.ssh"

    def environment(self) -> dict[str, str]:
        """The tests' own, so that `monkeypatch.setenv` reaches rlx, with the client's home."""
        return {**os.environ, "HOME": "/root", "PYTHONPATH": str(REPOSITORY)}

    def rlx(
        self, *argv: str, env: Mapping[str, str] | None = None, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        done = run_rlx(
            argv,
            environment={**self.environment(), **(env or {})},
            namespaces=[Path(f"/proc/{self.pid}/ns/{name}") for name in ("net", "uts", "mnt")],
            timeout_s=timeout_s,
        )
        return self.checked(done, *argv) if check else done

    def start_rlx(self, *argv: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        return self.popen(sys.executable, "-m", "rlx", *argv, env=env, **options)

    def call(self, action: Callable[[], T]) -> T:
        """Call a function of rlx in this process, but as the client: with its network and files.

        A thread of its own enters the client's namespaces and ends with the call; so do programs that it starts.
        """
        with ThreadPoolExecutor(1, initializer=self._enter) as thread:
            return thread.submit(action).result()

    def owns(self, process: Path) -> bool:
        """Whether a process (a folder of /proc) runs on the client."""
        try:
            return (process / "ns/net").stat().st_ino == Path(f"/proc/{self.pid}/ns/net").stat().st_ino
        except OSError:  # gone
            return False

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        _checked(libc.unshare(_CLONE_FS))
        for name, kind in {"net": _CLONE_NEWNET, "mnt": _CLONE_NEWNS}.items():
            namespace = os.open(f"/proc/{self.pid}/ns/{name}", os.O_RDONLY)
            _checked(libc.setns(namespace, kind))
            os.close(namespace)


def _checked(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
