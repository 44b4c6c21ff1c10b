"""A private Docker Engine with one container, which sees this machine's programs. For tests of `docker exec`."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


class Engine:
    def __init__(self, folder: Path) -> None:
        self.socket = f"unix://{folder}/docker.sock"
        self._folder = folder
        self._daemon: subprocess.Popen[bytes] | None = None

    def docker(self, *arguments: str, stdin: bytes = b"") -> str:
        command = ["docker", "-H", self.socket, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def start(self) -> None:
        options = ["--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"]
        folders = [f"--{name}={self._folder / name}" for name in ("data-root", "exec-root", "pidfile")]
        with (self._folder / "log").open("wb") as log:
            self._daemon = subprocess.Popen(
                ["dockerd", "-H", self.socket, *options, *folders], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 30
        while subprocess.run(["docker", "-H", self.socket, "version"], capture_output=True, check=False).returncode:
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                words = (self._folder / "log").read_text(errors="replace").splitlines()[-1:]
                self.stop()
                pytest.skip(f"no Docker Engine starts here: {words}")
            time.sleep(0.1)
        self.docker("import", "-", "tiny", stdin=_image())

    def container(self, name: str, *options: str) -> str:
        """Its id. It runs until it is removed."""
        run = ["run", "-d", "--init=false", "--network", "none", "-v", "/usr:/usr:ro", "--name", name, *options]
        return self.docker(*run, "tiny", "sleep", "infinity")

    def stop(self) -> None:
        if self._daemon is None:
            return
        listed = subprocess.run(["docker", "-H", self.socket, "ps", "-aq"], capture_output=True, text=True, check=False)
        for container in listed.stdout.split():
            self.docker("rm", "-f", container)
        self._daemon.terminate()
        self._daemon.wait()
        self._daemon = None


def _image() -> bytes:
    """Folders and links only: the programs are this machine's, by a read-only mount."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder in ("tmp", "root", "usr", "etc", "var", "proc", "dev", "sys"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in ("bin", "lib", "lib64", "sbin"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
    return archive.getvalue()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    if os.getuid() != 0 or not shutil.which("dockerd"):
        pytest.skip("needs root and dockerd: make rig")
    # Short, since the path of a socket may have no more than 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="rlx-engine-", dir="/tmp"))
    started = Engine(folder)
    try:
        started.start()
        yield started
    finally:
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)
