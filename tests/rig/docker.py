"""A Docker Engine on a host of the rig, and containers from an image that no registry has.

The engine runs in the host's namespaces: its socket and its mount sources are where they are on a real server, and it
ends with the host. The image is an empty frame: the programs come from the host's /usr, mounted read-only.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.rig.capabilities import RigUnavailable, require_docker
from tests.rig.machine import Machine, python_folders

IMAGE = "rlx-rig:latest"
_START_S = 60


class Engine:
    def __init__(self, host: Machine) -> None:
        require_docker()
        self._host = host
        self._configure()
        self.start()
        host.run("docker", "import", "-", IMAGE, stdin=_image())

    def _configure(self) -> None:
        configuration = {
            "data-root": "/run/docker-data",
            "bridge": "none",
            "iptables": False,
            "ip-masq": False,
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            # The keeper of the rig removes the groups of this name.
            "cgroup-parent": f"/{self._host.folder.parent.name}",
        }
        etc = self._host.folder / "etc"
        (etc / "docker/daemon.json").write_text(json.dumps(configuration), encoding="utf-8")
        if not any(line.startswith("docker:") for line in (etc / "group").read_text(encoding="utf-8").splitlines()):
            with (etc / "group").open("a", encoding="utf-8") as group:
                group.write("docker:x:990:\n")

    def start(self) -> None:
        """Raises RigUnavailable with the end of its log where this kernel does not let it run."""
        # Through a shell that goes away: the engine is a child of the host's first process and outlives this call.
        pid = int(self._host.run("sh", "-c", "dockerd >/run/dockerd.log 2>&1 </dev/null & echo $!").stdout)
        deadline = time.monotonic() + _START_S
        while self._host.run("docker", "version", check=False).returncode:
            # Not by its name, which it has only once the shell's child has become it.
            if time.monotonic() > deadline or pid not in self._host.processes():
                raise RigUnavailable(f"dockerd does not start: {self._log_end()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """As `systemctl stop docker` does: its containers stop too."""
        self._signal("TERM")

    def kill(self) -> None:
        """As a crash does: its containers run on until it starts again."""
        self._signal("KILL")

    def _signal(self, how: str) -> None:
        self._host.kill("dockerd", how)
        while "dockerd" in self._host.processes().values():
            time.sleep(0.01)
        # Left by a crash; the next engine would take the number in it for a running one.
        self._host.path("/run/docker.pid").unlink(missing_ok=True)

    def _log_end(self) -> str:
        lines = self._host.path("/run/dockerd.log").read_text(errors="replace", encoding="utf-8").splitlines()
        return " / ".join(lines[-3:])

    def build(self, change: str) -> str:
        """An image like the rig's, with this instruction of a Dockerfile; its id."""
        self._host.run("docker", "create", "--name=frame", IMAGE, "true")
        image = self._host.run("docker", "commit", f"--change={change}", "frame").stdout.decode().strip()
        self._host.run("docker", "rm", "frame")
        return image

    def container(
        self,
        name: str,
        mounts: Mapping[str, str] | None = None,
        *,
        devices: Sequence[str] = (),
        user: str = "root",
        env: Mapping[str, str] | None = None,
        python: bool = False,
        options: Sequence[str] = (),
    ) -> Container:
        """Start one that sleeps. `mounts`: folder of the host to folder inside; `python`: with the tests' own Python.

        `options` are further ones of `docker run`, such as `--init`, `--tmpfs=/data`, `--network=host`.
        """
        volumes = ["/usr:/usr:ro", *(f"{source}:{inside}" for source, inside in (mounts or {}).items())]
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        if python:
            volumes += [f"{folder.resolve()}:{folder}:ro" for folder in python_folders()]
            path = f"{sys.prefix}/bin:{path}"
        alone = [] if any(option.startswith("--network=") for option in options) else ["--network=none"]
        argv = ["docker", "run", "--detach", *alone, f"--name={name}", f"--hostname={name}", f"--user={user}"]
        argv += [f"--volume={volume}" for volume in volumes]
        argv += [f"--device={device}" for device in devices]
        argv += [f"--env={key}={value}" for key, value in {"PATH": path, "LANG": "C.UTF-8", **(env or {})}.items()]
        # `sleep` as pid 1 is deaf to SIGTERM, which would cost 10 s at each stop.
        argv += ["--stop-signal=KILL", "--shm-size=2g", *options, IMAGE, "sleep", "infinity"]
        return Container(self._host, name, self._host.run(*argv).stdout.decode().strip())


@dataclass(frozen=True)
class Container:
    host: Machine
    name: str
    id: str

    def run(
        self, *argv: str, stdin: bytes = b"", user: str | None = None, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        chosen = [f"--user={user}"] if user else []
        command = ("docker", "exec", "--interactive", *chosen, self.id, *argv)
        return self.host.run(*command, stdin=stdin, check=check, timeout_s=timeout_s)

    def stop(self) -> None:
        self.host.run("docker", "kill", self.id)

    def start(self) -> None:
        self.host.run("docker", "start", self.id)

    def restart(self) -> None:
        self.host.run("docker", "restart", "--time=0", self.id)

    def remove(self) -> None:
        self.host.run("docker", "rm", "--force", self.id)


def _image() -> bytes:
    """The frame: links into /usr, empty folders, and the few files that programs cannot do without."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("bin", "lib", "lib64"):
            _add(archive, name, tarfile.SYMTYPE, link=f"usr/{name}")
        # sbin is no link, since docker mounts its init there.
        for name in ("sbin", "usr", "proc", "sys", "dev", "run", "etc", "root", "home", "var", "opt", "mnt"):
            _add(archive, name, tarfile.DIRTYPE)
        for name in ("tmp", "var/tmp"):
            _add(archive, name, tarfile.DIRTYPE, mode=0o1777)
        for name, text in _ETC.items():
            _add(archive, f"etc/{name}", tarfile.REGTYPE, data=text.encode(), mode=0o644)
        _add(archive, "etc/ld.so.cache", tarfile.REGTYPE, data=Path("/etc/ld.so.cache").read_bytes(), mode=0o644)
    return buffer.getvalue()


_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nma-user:x:1000:100::/home/ma-user:/bin/bash\n",
    "group": "root:x:0:\nusers:x:100:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "os-release": 'ID=rlx-rig\nPRETTY_NAME="rlx test rig"\n',
}


def _add(
    archive: tarfile.TarFile, name: str, kind: bytes, *, data: bytes = b"", link: str = "", mode: int = 0o755
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(data)
    archive.addfile(entry, io.BytesIO(data))
