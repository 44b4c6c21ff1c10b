"""Somebody in front of the rig's client, with runs of a few lines of shell on its hosts and in their containers."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from rlx.hosts import locate, site_of
from rlx.model import LaunchPlan, PlannedFile, RunState, Site, to_jsonable
from rlx.planning.preflight import sealed_plan
from rlx.runs import Index, Observation, RunPaths, RunRef, launch, stop, take_snapshots
from rlx.runs.control import Stopped
from tests.rig import Client, Host
from tests.runs.toys import is_over, says_up, toy_plan, until

T = TypeVar("T")

# A small program in between: a process inherits the peak of the one that it was forked from.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""

NARROW = 2_000_000
"""Bytes per second of a line on which a `heavy` plan takes about half a second to arrive."""
# No compression helps.
_BALLAST = PlannedFile("ballast", base64.b64encode(random.Random(1).randbytes(400_000)).decode())

PATIENCE_S = 60.0
"""How long to wait for what must come; a busy machine may take its time."""


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class Laptop:
    """An RLX_HOME of its own. Functions of rlx are called in this process, but as the client; `rlx` is a program."""

    def __init__(self, client: Client, home: Path) -> None:
        self.client, self.home = client, home
        home.mkdir(parents=True, exist_ok=True)

    def site(self, destination: str, container: str | None = None) -> Site:
        return self._call(lambda: locate(site_of(destination, container))[0])

    def launch(self, *plans: LaunchPlan, secrets: Mapping[str, str] | None = None) -> tuple[RunRef, ...]:
        return self._call(lambda: launch([sealed_plan(plan) for plan in plans], secrets or {}, self.home).runs)

    def start(self, host: Host, plan: LaunchPlan) -> RunRef:
        """Launch one run and wait until it says `up`."""
        (ref,) = self.launch(plan)
        patiently(lambda: is_up(host, ref), "the script runs")
        return ref

    def runs(self) -> tuple[RunRef, ...]:
        return self._call(lambda: Index(self.home).runs())

    def workers(self, head: RunRef) -> tuple[RunRef, ...]:
        return self._call(lambda: Index(self.home).workers([head]))

    def see(self, ref: RunRef) -> Observation:
        return self._call(lambda: take_snapshots(Index(self.home), [ref])[ref.run_id].observation)

    def reaches(self, ref: RunRef, state: RunState) -> Observation:
        return patiently(lambda: seen if (seen := self.see(ref)).state is state else None, f"{ref.run_id} is {state}")

    def ended(self, ref: RunRef) -> Observation:
        return patiently(lambda: seen if is_over(seen := self.see(ref)) else None, f"{ref.run_id} ends")

    def stop(self, ref: RunRef, grace_s: int = 1) -> Stopped:
        return self._call(lambda: stop(ref, grace_s))

    def rlx(self, *argv: str, env: Mapping[str, str] | None = None) -> Said:
        done = self.client.rlx(*argv, env={"RLX_HOME": str(self.home), **(env or {})}, check=False)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start_rlx(self, *argv: str, **options: Any) -> subprocess.Popen[bytes]:
        return self.client.start_rlx(*argv, env={"RLX_HOME": str(self.home)}, **options)

    def rows(self, *argv: str) -> dict[str, dict[str, Any]]:
        """What `rlx status` says of the runs, by arm."""
        said = self.rlx("status", "--json", *argv)
        assert said.code == 0, said.err
        return {run["arm"]: run for run in json.loads(said.out)["runs"]}

    def write_plans(self, *plans: LaunchPlan) -> str:
        """For `rlx launch --plan`."""
        path = self.home.parent / f"{self.home.name}-plan.json"
        path.write_text(json.dumps({"plans": to_jsonable(plans)}), encoding="utf-8")
        return str(path)

    def measured(self, *argv: str) -> tuple[bytes, int]:
        """What `rlx` prints, and how many kB it had at most; it must succeed."""
        program = (sys.executable, "-c", MEASURE, sys.executable, "-m", "rlx", *argv)
        done = self.client.run(*program, env={**self.client.environment(), "RLX_HOME": str(self.home)})
        return done.stdout, int(done.stderr.split()[-1])

    def _call(self, action: Callable[[], T]) -> T:
        return self.client.call(action)


def patiently(condition: Callable[[], T], what: str) -> T:
    return until(condition, what, PATIENCE_S)


def toy(site: Site, script: str, *, arm: str = "main", **options: Any) -> LaunchPlan:
    return replace(toy_plan(says_up(script), arm=arm), site=site, **options)


def heavy(plan: LaunchPlan) -> LaunchPlan:
    """With a file of some size, so that there is a time during which it travels over a `NARROW` line."""
    return replace(plan, files=(*plan.files, _BALLAST))


def npu_toy(site: Site, script: str, *listed: int, count: int = 1, arm: str = "main") -> LaunchPlan:
    """A run that leases NPUs: these, or as many."""
    script = f'echo "devices $RLX_DEVICES"\n{script}'
    return toy(site, script, arm=arm, device_kind="npu", devices=len(listed) or count, device_list=listed)


def run_folder(host: Host, ref: RunRef) -> Path:
    """The run directory, as a path for the tests."""
    return host.path(ref.remote_dir.replace("~", "/root", 1))


def log(host: Host, ref: RunRef) -> str:
    path = RunPaths(run_folder(host, ref)).log
    return path.read_text(errors="replace", encoding="utf-8") if path.exists() else ""


def go(host: Host, ref: RunRef) -> None:
    """What a script waits for that has GO in it."""
    (run_folder(host, ref) / "go").touch()


GO = "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done\n"


def is_up(host: Host, ref: RunRef) -> bool:
    return "up\n" in log(host, ref)


def launched(laptop: Laptop, plan: LaunchPlan) -> RunRef:
    """Started by the command line, as a person does."""
    said = laptop.rlx("launch", "--plan", laptop.write_plans(sealed_plan(plan)))
    assert said.code == 0, said.err
    return next(ref for ref in laptop.runs() if ref.run_id == said.out.strip())


def job_of(laptop: Laptop, script: str, arm: str = "main", count: int = 1, host: str = "hpc") -> RunRef:
    return launched(laptop, npu_toy(laptop.site(host), script, count=count, arm=arm))
