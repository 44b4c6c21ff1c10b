"""launch.sh as supervise.sh would run it: one run directory, one session, one log."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlx.model import LaunchPlan
from tests.loopback import free_port

# Ray takes its time to start where many tests run at once; nothing here waits for as long as that on a healthy machine.
PATIENCE_S = 300


@dataclass
class Run:
    launch: LaunchPlan
    folder: Path
    ray: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def begin(
        cls, plan: LaunchPlan, folder: Path, variables: Mapping[str, str], edit: Callable[[str], str] = str
    ) -> Run:
        """`edit` changes the text of the run directory's files."""
        for file in plan.files:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(edit(file.content), encoding="utf-8")
        (folder / "attempts/1").mkdir(parents=True)
        ray = Path(tempfile.mkdtemp(prefix="rlx-", dir="/tmp"))
        (ray / "token").write_text("0" * 64, encoding="utf-8")
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "RLX_"))},
            "HOME": str(folder.parent),
            "RLX_RUN": folder.name,
            "RLX_RUN_DIR": str(folder),
            "RLX_ATTEMPT_DIR": str(folder / "attempts/1"),
            "RLX_RAY_TMP": str(ray),
            **variables,
        }
        with (folder / "attempts/1/log").open("wb") as log:
            process = subprocess.Popen(
                ["bash", folder / "launch.sh"], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        return cls(plan, folder, ray, process)

    @property
    def attempt(self) -> Path:
        return self.folder / "attempts/1"

    @property
    def log(self) -> str:
        return (self.attempt / "log").read_text(encoding="utf-8", errors="replace")

    def wait_for(self, text: str) -> str:
        """The log, once the text is in it; fails at once if the run ends without it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # What it said before its end is in the log that is read after it.
            code = self.process.poll()
            log = self.log
            if text in log:
                return log
            assert code is None, f"{self.folder.name} ended with {code}, without {text!r} in its log\n{last_lines(log)}"
            in_time = time.monotonic() < deadline
            assert in_time, f"{text!r} did not come within {PATIENCE_S} s; {self.state()}\n{last_lines(log)}"
            time.sleep(0.2)

    def state(self) -> str:
        """What tells a training that stands still from a log that does: its age, and what of the run is there."""
        age = time.time() - (self.attempt / "log").stat().st_mtime
        return f"the log was last written {age:.0f} s ago, and of the run are there:\n" + "\n".join(self.left())

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def processes(self) -> dict[int, str]:
        """Command lines of what carries the run in its environment, as supervise.sh finds its members."""
        mark = f"RLX_RUN={self.folder.name}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, ValueError):
                continue
        return {pid: command for pid, command in found.items() if command}

    def left(self) -> list[str]:
        return [f"{pid} {command.strip()}" for pid, command in self.processes().items()]

    def leaves_nothing(self) -> bool:
        """What Ray's own processes take to see that their head is gone is not the question."""
        deadline = time.monotonic() + PATIENCE_S
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.5)
        return self.left() == []

    def kill(self, program: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Its processes with that in their command line."""
        for pid, command in self.processes().items():
            if program in command:
                with suppress(ProcessLookupError):
                    os.kill(pid, how)

    def kill_all(self) -> None:
        """As when the machine is switched off: nobody can say goodbye."""
        while self.processes():
            self.kill("", signal.SIGKILL)
        self.process.wait()

    def discard(self) -> None:
        """Nothing of it stays, whatever became of it."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        subprocess.run(["rm", "-rf", self.ray], check=True)


def last_lines(text: str, count: int = 40) -> str:
    return "\n".join(text.splitlines()[-count:])


def own_address() -> str:
    """As other machines know this one; Ray puts nodes of 127.0.0.1 there as well."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.77", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


class Nodes:
    """Nodes of one run, all on this machine, each with a run directory, Ray folder and session of its own."""

    token = "4" * 64

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.head_at = f"{own_address()}:{free_port('')}"
        self._runs: list[Run] = []

    def begin(self, plan: LaunchPlan, number: int, count: int = 2, **variables: str) -> Run:
        """Starts one, with what supervise.sh sets."""
        cluster = {
            "RLX_NODE": str(number),
            "RLX_NODES": str(count),
            "RLX_HEAD": self.head_at,
            "RLX_RAY_TOKEN": self.token,
            "NODES_WITHIN_S": str(PATIENCE_S),
        }
        folder = self._folder / f"run-{os.getpid()}-{len(self._runs)}-node{number}"
        self._runs.append(Run.begin(plan, folder, {**cluster, **variables}))
        return self._runs[-1]

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *problem: object) -> None:
        for run in self._runs:
            run.discard()
