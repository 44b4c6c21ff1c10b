"""A Ray cluster as somebody else has it: a head of its own on free ports, which ends with the test that started it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE_S = 300.0


class RayHead:
    """`with ray_head(folder) as ray`: started, with so many logical devices; nothing here looks for real ones."""

    def __init__(self, folder: Path, cpus: int, gpus: int) -> None:
        self.folder = folder
        gcs, dashboard, client = free_ports(3)
        self.address, self.gcs = f"http://127.0.0.1:{dashboard}", gcs
        environment = {name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "RLX_"))}
        environment |= {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        options = {
            "port": gcs,
            "dashboard-port": dashboard,
            "ray-client-server-port": client,
            "dashboard-host": "127.0.0.1",
            "num-cpus": cpus,
            "num-gpus": gpus,
            "object-store-memory": 256 * 1024**2,
            "temp-dir": folder,
            **dict.fromkeys(("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port"), 0),
            **dict.fromkeys(("min-worker-port", "max-worker-port"), 0),
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        # Not --block: that ends a Ray whose dashboard ends.
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", *words]
        log = folder / "start.log"
        # What it starts keeps a pipe open.
        with log.open("wb") as output:
            done = subprocess.run(command, env=environment, stdout=output, stderr=output, check=False, timeout=300)
        try:
            assert done.returncode == 0, log.read_text(encoding="utf-8")
            self.until(self.is_up, "the head is up")
        except BaseException:
            self.kill()
            raise

    def is_up(self) -> bool:
        with suppress(OSError, ValueError):
            return bool(self.free())
        return False

    @property
    def lives(self) -> bool:
        return bool(self.pids("raylet/raylet"))

    # ---- what it says ----

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return json.loads(answer.read())

    def free(self) -> dict[str, float]:
        status = self.ask("/api/cluster_status")["data"]["clusterStatus"]
        return {name: total - used for name, (used, total) in status["loadMetricsReport"]["usage"].items()}

    def state(self, job: str) -> str:
        return str(self.ask(f"/api/jobs/{job}")["status"])

    def submit(self, job: str, command: str, gpus: int = 0) -> None:
        """As a neighbour does."""
        self.ask("/api/jobs/", {"submission_id": job, "entrypoint": command, "entrypoint_num_gpus": gpus})

    def stop(self, job: str) -> None:
        self.ask(f"/api/jobs/{job}/stop", {})

    # ---- its processes ----

    def pids(self, word: str = "") -> list[int]:
        """Its own processes alone: each names its folder, or the port that it was given for its head."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                is_own = str(self.folder) in line or (f":{self.gcs} " in line and "ray" in line)
                if is_own and word in line and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
        return found

    @contextmanager
    def without_dashboard(self) -> Iterator[None]:
        """Its dashboard is killed, and started again as it was."""
        (pid,) = self.pids("dashboard/dashboard.py")
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
        environment = dict(
            entry.split("=", 1)
            for entry in Path(f"/proc/{pid}/environ").read_text("utf-8", errors="replace").split("\0")
            if entry
        )
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self._answers(), "the dashboard is gone")
        yield
        subprocess.run(
            ["setsid", "--fork", *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        self.until(self._answers, "the dashboard is there again")

    def _answers(self) -> bool:
        with suppress(OSError, ValueError):
            return "ray_version" in self.ask("/api/version")
        return False

    def kill(self) -> None:
        """All at once, as when the machine's memory ends."""
        self._signal(signal.SIGKILL)
        self.until(lambda: not self.pids(), "its processes are gone")

    def end(self) -> None:
        self._signal(signal.SIGTERM)
        with suppress(AssertionError):
            self.until(lambda: not self.pids(), "its processes are gone", 20)
        self.kill()
        # The lock of runs that wait for its devices.
        for lock in Path("/tmp").glob(f"rlx-ray-{os.getuid()}-http---127.0.0.1-{self.address.rpartition(':')[2]}"):
            lock.unlink()

    def _signal(self, number: int) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def until(self, condition: Callable[[], T], what: str, seconds: float = PATIENCE_S) -> T:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not after {seconds} s: {what}"
            time.sleep(0.2)
        return found


@contextmanager
def ray_head(folder: Path, cpus: int = 4, gpus: int = 2) -> Iterator[RayHead]:
    """A head in a folder whose path is short: Ray puts sockets below it."""
    head = RayHead(folder, cpus, gpus)
    try:
        yield head
    finally:
        head.end()


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
