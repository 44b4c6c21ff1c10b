"""What client and hosts have in common: a machine is a set of namespaces with files of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tests.rig.capabilities import RigUnavailable

REPOSITORY = Path(__file__).parents[2]
BOOT = Path(__file__).with_name("boot.sh")


def python_folders() -> list[Path]:
    """Where the Python that runs the tests lies: its environment, by both names if it is a link, and its base."""
    folders = [Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    return list(dict.fromkeys(folders))


def kept_below_root() -> list[str]:
    folders = [*python_folders(), REPOSITORY]
    return [str(folder) for folder in dict.fromkeys(folders) if folder.is_relative_to("/root")]


class Machine:
    kind = "client"
    new_namespaces: tuple[str, ...] = ("--mount", "--uts")
    entered: tuple[str, ...] = ("--mount", "--uts", "--net")

    def __init__(self, name: str, address: str, network: str, folder: Path) -> None:
        self.name, self.address, self.folder = name, address, folder
        self._network = network
        self._first: subprocess.Popen[str]
        self.pid = 0  # of its first process, as this machine sees it

    def prepare(self, hosts_file: str) -> None:
        """Its files, before it boots: a copy of /etc, all else empty."""
        for name in ("root/.ssh", "home", "srv", "var/tmp", "tmp", "usr/local/sbin", "docker", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name, mode in {"root": 0o700, "root/.ssh": 0o700, "tmp": 0o1777, "var/tmp": 0o1777}.items():
            (self.folder / name).chmod(mode)
        subprocess.run(["cp", "-a", "/etc", self.folder / "etc"], check=True)
        (self.folder / "etc/hosts").write_text(hosts_file)

    def start_boot(self) -> None:
        """Returns at once, so that many machines boot at the same time; `wait_for_boot` follows."""
        enter = ["nsenter", f"--net={self._network}", "unshare", *self.new_namespaces, "--propagation", "private"]
        self._first = subprocess.Popen(
            [*enter, "bash", BOOT, self.kind, self.name, self.folder, *kept_below_root()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_boot(self) -> None:
        assert self._first.stdout and self._first.stderr
        line = self._first.stdout.readline()
        if not line:
            raise RigUnavailable(f"{self.name} did not boot: {self._first.stderr.read().strip()}")
        self.pid = int(line)

    def power_off(self) -> None:
        """Ends its first process, and with it a host's others; returns when they are gone."""
        self._first.communicate()

    def path(self, path: str) -> Path:
        """A file of this machine, as a path for the tests."""
        return Path(f"/proc/{self.pid}/root{path}")

    def command(self, *argv: str) -> list[str]:
        return ["nsenter", f"--target={self.pid}", *self.entered, *argv]

    def environment(self) -> dict[str, str]:
        return {
            "HOME": "/root",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
        }

    def run(
        self,
        *argv: str,
        stdin: bytes | IO[bytes] = b"",
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout_s: float = 120,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run to the end on this machine. Raises AssertionError with all output for a failure, unless not `check`."""
        given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        done = subprocess.run(
            self.command(*argv),
            **given,
            capture_output=True,
            env={**self.environment(), **(env or {})},
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{self.name}: {argv}: {done.returncode}\n{_shown(done)}"
        return done

    def popen(self, *argv: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start on this machine; options as for `subprocess.Popen`."""
        return subprocess.Popen(self.command(*argv), env={**self.environment(), **(env or {})}, **options)


def _shown(done: subprocess.CompletedProcess[bytes]) -> str:
    return (done.stdout + done.stderr).decode(errors="replace")
