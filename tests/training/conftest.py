"""Real training: the demo is run once, and several tests look at what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlx.model.attempt_lineage import MACHINE_CAUSES
from rlx.runs.judging.diagnose_runs import diagnose_log
from tests.conftest import REPOSITORY

RECIPE = REPOSITORY / "recipes/tiny-cpu.yaml"
_LAPTOPS: list[Laptop] = []
_LINES, _WIDTH = 40, 240


@dataclass(frozen=True)
class Laptop:
    """A person with an rlx home; the run root and the leases are of the machine."""

    folder: Path

    def rlx(self, *arguments: str, code: int | None = 0, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        done = self._run(*arguments, timeout_s=timeout_s)
        if code is not None and done.returncode != code:
            done = self._after_its_machine_ended_it(done, *arguments, timeout_s=timeout_s)
        assert code is None or done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def _run(self, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rlx", *arguments],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            cwd=self.folder,
            encoding="utf-8",
        )

    def _after_its_machine_ended_it(
        self, done: subprocess.CompletedProcess[str], *arguments: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Do once what a recipe's `retry` may do: two trainings at once are much for two cores (RLX968)."""
        if arguments[0] == "rehearse" and any(cause in done.stdout for cause in MACHINE_CAUSES):
            return self._run(*arguments, timeout_s=timeout_s)
        if begun := self.begin_again():
            done.returncode = self._run("wait", *begun, timeout_s=timeout_s).returncode
        return done

    def begin_again(self) -> list[str]:
        """Retry the runs whose first log names a cause of the machine; their ids. All other failures stay failures."""
        logs = [log for log in self.folder.glob("root/runs/*/latest/log") if log.resolve().parent.name == "1"]
        ended = [log for log in logs if (log.parent / "state/exit").exists()]
        causes = {log.parents[1].name: diagnose_log(log).diagnosis.cause for log in ended}
        begun = [run for run, cause in causes.items() if cause and cause.id in MACHINE_CAUSES]
        if begun:
            self._run("retry", *begun, timeout_s=120)
        return begun

    def environment(self) -> dict[str, str]:
        places = {"RLX_HOME": "home", "RLX_ROOT": "root", "RLX_LEASES": "leases"}
        return {
            **os.environ,
            **{variable: str(self.folder / name) for variable, name in places.items()},
            "RLX_TMUX_SOCKET": self.socket,
            "NO_COLOR": "1",
        }

    @property
    def socket(self) -> str:
        return f"rlx-test-{os.getpid()}-{self.folder.name}"

    def launch(self, *arguments: str) -> list[str]:
        return self.rlx("launch", str(RECIPE), "--host", "local", *arguments).stdout.split()

    def status(self, *names: str) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = json.loads(self.rlx("status", "--json", *names).stdout)["runs"]
        return runs

    def until(self, run: str, reached: Callable[[dict[str, Any]], bool], timeout_s: float = 300) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while not reached(row := self.status(run)[0]):
            assert time.monotonic() < deadline, f"still {row['state']} at step {row['steps_done']}: {row['run_dir']}"
            if row["state"] in ("failed", "lost"):
                assert run in self.begin_again(), self.rlx("logs", run, "-n", "40", code=None).stdout
            time.sleep(0.5)
        return row


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failed test how the newest log ends: a training that fails now and then tells why only once."""
    report = yield
    logs = [log for laptop in _LAPTOPS for log in laptop.folder.glob("root/runs/*/latest/log")]
    if report.failed and logs:
        newest = max(logs, key=lambda log: log.stat().st_mtime)
        report.sections.append((f"end of {newest}", end_of(newest)))
    return report


def end_of(log: Path) -> str:
    lines = log.read_text(errors="replace", encoding="utf-8").splitlines()[-_LINES:]
    return "\n".join(line[:_WIDTH] for line in lines)


@pytest.fixture(scope="session")
def new_laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Laptop]]:
    def make() -> Laptop:
        _LAPTOPS.append(Laptop(tmp_path_factory.mktemp("laptop")))
        return _LAPTOPS[-1]

    yield make
    for laptop in _LAPTOPS:
        laptop.rlx("stop", "--all", "--yes", "--grace", "2", code=None)
        subprocess.run(["tmux", "-L", laptop.socket, "kill-server"], capture_output=True, check=False)


@pytest.fixture(scope="session", autouse=True)
def tiny_assets(tmp_path_factory: pytest.TempPathFactory) -> None:
    Laptop(tmp_path_factory.mktemp("assets")).rlx("data", "tiny-cpu")


@pytest.fixture(scope="session")
def demo(new_laptop: Callable[[], Laptop]) -> Laptop:
    """Both arms of the tiny recipe, trained to the end."""
    laptop = new_laptop()
    laptop.launch("--arm", "all", "--follow")
    return laptop


def processes_of(run_id: str) -> dict[int, str]:
    """Command lines of the live processes that carry the run's mark."""
    mark = f"RLX_RUN={run_id}".encode()
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            marked = mark in (folder / "environ").read_bytes().split(b"\0")
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marked and line:
            found[int(folder.name)] = line
    return found


def assert_nothing_is_left(run_id: str) -> None:
    """Soon after its end, which is on record before what it started has gone."""
    deadline = time.monotonic() + 120
    while left := processes_of(run_id):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def metrics(run_dir: Path) -> dict[int, dict[str, float]]:
    """step -> the values of all lines of that step."""
    found: dict[int, dict[str, float]] = {}
    for line in (run_dir / "latest/metrics.jsonl").read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        found.setdefault(document["step"], {}).update(document["data"])
    return found
