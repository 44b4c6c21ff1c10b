"""What client and hosts have in common: a machine is a set of namespaces with files of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from tests.rig.capabilities import RigUnavailable

REPOSITORY = Path(__file__).parents[2]
BOOT = Path(__file__).with_name("boot.sh")
_COPIED = ("passwd", "group", "hosts")


def python_folders() -> list[Path]:
    """Where the Python that runs the tests lies: its environment, by both names if it is a link, and its base."""
    folders = [Path(sys.prefix), Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    return list(dict.fromkeys(folders))


def kept_folders(shared: Iterable[Path]) -> list[Path]:
    """What must stay reachable although a machine has folders of its own in its place."""
    folders = dict.fromkeys([*python_folders(), REPOSITORY, *shared])
    return [folder for folder in folders if any(map(folder.is_relative_to, ("/root", "/tmp")))]


def make_etc(etc: Path) -> None:
    """Links to this machine's files, which boot.sh mounts at /run/etc; copies of those that tests write to."""
    for name in ("ssh", "docker"):
        (etc / name).mkdir(parents=True, exist_ok=True)
    # Not a copy: a root account that is locked on this machine would not be let in by the hosts' sshd.
    (etc / "shadow").write_text("root:*:19000:0:99999:7:::\n", encoding="utf-8")
    for entry in Path("/etc").iterdir():
        if entry.name in _COPIED or entry.is_symlink():
            shutil.copy2(entry, etc, follow_symlinks=False)
        elif not (etc / entry.name).exists():
            (etc / entry.name).symlink_to(f"/run/etc/{entry.name}")


class Machine:
    kind = "client"
    new_namespaces: tuple[str, ...] = ("--mount", "--uts")
    entered: tuple[str, ...] = ("--mount", "--uts", "--net")

    def __init__(self, name: str, address: str, network: str, folder: Path, shared: Iterable[Path] = ()) -> None:
        """`network`: file of its network namespace; `shared`: folders that the tests see by the same name."""
        self.name, self.address, self.folder = name, address, folder
        self._network, self._shared = network, shared
        self._first: subprocess.Popen[str]
        self.pid = 0  # of its first process, as this machine sees it

    def prepare(self, hosts_file: str) -> None:
        """Its files, before it boots: an /etc of its own, all else empty."""
        for name in ("root/.ssh", "home", "srv", "var/tmp", "tmp", "usr/local/sbin", "docker", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name, mode in {"root": 0o700, "root/.ssh": 0o700, "tmp": 0o1777, "var/tmp": 0o1777}.items():
            (self.folder / name).chmod(mode)
        make_etc(self.folder / "etc")
        (self.folder / "etc/hosts").write_text(hosts_file, encoding="utf-8")

    def start_boot(self) -> None:
        """Returns at once, so that many machines boot at the same time; `wait_for_boot` follows."""
        enter = ["nsenter", f"--net={self._network}", "unshare", *self.new_namespaces, "--propagation", "private"]
        self._first = subprocess.Popen(
            [*enter, "bash", BOOT, self.kind, self.name, self.folder, *kept_folders(self._shared)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
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
        return self.checked(done, *argv) if check else done

    def checked(self, done: subprocess.CompletedProcess[bytes], *argv: str) -> subprocess.CompletedProcess[bytes]:
        """Raises AssertionError with all output for a failure."""
        assert done.returncode == 0, f"{self.name}: {argv}: {done.returncode}\n{_shown(done)}"
        return done

    def popen(self, *argv: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """Start on this machine; options as for `subprocess.Popen`."""
        return subprocess.Popen(self.command(*argv), env={**self.environment(), **(env or {})}, **options)

    def processes(self) -> dict[int, str]:
        """Return the names of its processes by the pid that they have on it, those of its containers too."""
        entries = [entry for entry in self.path("/proc").iterdir() if entry.name.isdigit()]
        found = {int(entry.name): file_text(entry / "comm") for entry in entries}
        return {pid: name for pid, name in found.items() if name}

    def command_line(self, pid: int) -> str:
        """Of one of its processes, with blanks in between; empty once that is gone."""
        return file_text(self.path(f"/proc/{pid}/cmdline")).replace("\0", " ")

    def kill(self, name: str, how: str = "KILL") -> int:
        """Send a signal to all of its processes of that name, those in containers left out; returns to how many."""
        pids = [pid for pid, found in self.processes().items() if found == name and not self._is_contained(pid)]
        if pids:
            self.run("kill", "-s", how, *map(str, pids), check=False)
        return len(pids)

    def _is_contained(self, pid: int) -> bool:
        try:
            return self.path(f"/proc/{pid}/ns/pid").stat().st_ino != self.path("/proc/1/ns/pid").stat().st_ino
        except OSError:  # gone
            return True


def _shown(done: subprocess.CompletedProcess[bytes]) -> str:
    return (done.stdout + done.stderr).decode(errors="replace")


def file_text(file: Path) -> str:
    try:
        return file.read_text(errors="replace", encoding="utf-8").strip()
    except OSError:
        return ""
