"""A Docker Engine of its own for the tests: private daemon, private folders, an image made without a registry.

Needs root, dockerd and a kernel that allows containers; `engine` skips where one of them is missing.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.runs.toys import until

IMAGE = "rlx-test"
_FILES = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}
_LINKS = ("bin", "lib", "lib64")
# sbin is no link, since docker mounts its init there.
_FOLDERS = ("sbin", "dev", "etc", "proc", "root", "sys", "tmp", "usr", "var", "run")


class Engine:
    """One dockerd. `environment` is what a docker command needs to reach it."""

    def __init__(self) -> None:
        # Short, because the path of a socket is limited.
        self.folder = Path(tempfile.mkdtemp(prefix="rlx-engine-", dir="/tmp"))
        self.environment = {"DOCKER_HOST": f"unix://{self.folder}/docker.sock", "DOCKER_CONFIG": str(self.folder)}
        self.start()
        self._docker_in("import", "-", IMAGE, stdin=_image())

    def start(self) -> None:
        # It ends, and its containers with it, when a test process is killed that could not end it.
        command = [
            "setpriv",
            "--pdeathsig",
            "TERM",
            "dockerd",
            "-H",
            self.environment["DOCKER_HOST"],
            "--data-root",
            f"{self.folder}/data",
        ]
        command += ["--exec-root", f"{self.folder}/exec", "--pidfile", f"{self.folder}/pid", "--bridge", "none"]
        command += ["--iptables=false", "--ip-masq=false", "--storage-driver", "vfs"]
        with (self.folder / "log").open("ab") as log:
            self.daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while self._call("version").returncode != 0:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"dockerd does not start: {(self.folder / 'log').read_text(encoding='utf-8')[-500:]}"
                )
            time.sleep(0.05)

    def kill_daemon(self) -> None:
        """The containers go on: they are no children of it."""
        self.daemon.kill()
        self.daemon.wait()
        # Its containerd goes with it; where nobody reaps it, its pid still looks alive to the next daemon.
        for file in ("pid", "exec/containerd/containerd.pid"):
            (self.folder / file).unlink(missing_ok=True)

    def freeze(self) -> None:
        self.daemon.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.daemon.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.thaw()
        for container in self.docker("ps", "-aq").split():
            self.docker("rm", "-f", container)
        self.daemon.terminate()
        self.daemon.wait(timeout=120)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run_container(
        self,
        name: str,
        mounts: Mapping[str | Path, str | Path] | Sequence[str] = (),
        *,
        user: str | None = None,
        options: Sequence[str] = (),
    ) -> str:
        """A container that sleeps, with the host's programs inside; its full id. PID 1 reaps nothing.

        `mounts` maps folders of the host to those inside, or lists what `docker run -v` takes.
        """
        volumes = [f"{at}:{inside}" for at, inside in mounts.items()] if isinstance(mounts, Mapping) else list(mounts)
        arguments = [word for volume in ["/usr:/usr:ro", *volumes] for word in ("-v", volume)]
        arguments += ["--user", user] if user else []
        return self.docker(
            *("run", "-d", "--name", name, "--network", "none", *arguments, *options, IMAGE, "sleep", "infinity")
        ).strip()

    def docker(self, *arguments: str) -> str:
        return self._docker_in(*arguments).decode()

    def _docker_in(self, *arguments: str, stdin: bytes = b"") -> bytes:
        completed = self._call(*arguments, stdin=stdin)
        assert completed.returncode == 0, f"docker {' '.join(arguments)}: {completed.stderr.decode()}"
        return completed.stdout

    def is_emptied(self) -> bool:
        """Remove its containers, also one that docker is about to remove, and refuses to."""
        left = self.docker("ps", "-aq").split()
        if left:
            self._call("rm", "-f", *left)
        return not left

    def _call(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, **self.environment}
        return subprocess.run(["docker", *arguments], input=stdin, env=environment, capture_output=True, check=False)


def _image() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in _FOLDERS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(entry)
        for name in _LINKS:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(entry)
        for name, text in _FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@functools.cache
def why_not() -> str:
    """What is missing for an engine; empty if nothing."""
    if os.geteuid() != 0:
        return "a Docker Engine of our own needs root"
    missing = [tool for tool in ("dockerd", "containerd", "docker", "setpriv") if shutil.which(tool) is None]
    return f"{', '.join(missing)} is not installed" if missing else ""


@pytest.fixture(scope="session")
def running_engine() -> Iterator[Engine]:
    if reason := why_not():
        pytest.skip(reason)
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def engine(running_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The engine, as the one that `docker` reaches in this test; without containers before and afterwards."""
    for name, value in running_engine.environment.items():
        monkeypatch.setenv(name, value)
    yield running_engine
    until(running_engine.is_emptied, "no container is left")
