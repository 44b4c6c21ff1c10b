"""Small real runs: launch plans whose launch.sh is a few lines of bash, and ways to look at their processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from rlx.hosts import local_site
from rlx.model import Expectations, LaunchPlan, PlannedFile, RunState
from rlx.planning.preflight import sealed_plan
from rlx.runs import Index, Observation, RunPaths, RunRef, launch, take_snapshots

T = TypeVar("T")

FOREVER = "while :; do sleep 0.2; done\n"


def toy_plan(script: str, *, arm: str = "main", seed: int = 1, secrets: tuple[str, ...] = ()) -> LaunchPlan:
    plan = LaunchPlan(
        name="toy",
        arm=arm,
        control=None,
        seed=seed,
        backend="none",
        backend_version="0",
        site=local_site(),
        command=("bash",),
        env={},
        secrets=secrets,
        files=(PlannedFile("launch.sh", script, 0o700),),
        expectations=Expectations(None, (), False, None, 1, "auto", None, False),
        treatment=(),
        recipe={},
        device_kind="cpu",
        devices=1,
    )
    return sealed_plan(plan)


def home() -> Path:
    return Path(os.environ["RLX_HOME"])


def start(*plans: LaunchPlan, secrets: Mapping[str, str] | None = None) -> tuple[RunRef, ...]:
    return launch([sealed_plan(plan) for plan in plans], secrets or {}, home()).runs


def start_one(script: str) -> RunRef:
    """Launch a run and wait until its script runs."""
    (ref,) = start(toy_plan(says_up(script)))
    until(lambda: "up\n" in log_of(ref), "the script runs")
    return ref


def says_up(script: str) -> str:
    """The script, which says so first, unless it says so itself: after its trap, say, since a signal may come then."""
    return script if "echo up" in script else f"echo up\n{script}"


def until(condition: Callable[[], T], what: str, seconds: float = 60.0) -> T:
    """The first true value of the condition; fails the test if there is none in time.

    What is costly to look at is looked at less often: tests that wait beside each other would take the processor from
    what they wait for.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if value := condition():
            return value
        ended = time.monotonic()
        assert ended < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(min(0.5, max(0.02, 2 * (ended - began))))


def see(ref: RunRef) -> Observation:
    return take_snapshots(Index(home()), [ref])[ref.run_id].observation


def ended(ref: RunRef) -> Observation:
    """The run once it has ended and nothing of it is left."""
    return until(lambda: seen if is_over(seen := see(ref)) else None, f"{ref.run_id} ends")


def is_over(seen: Observation) -> bool:
    """Whether nothing of the run is left: its holder, too, is the last to tidy up its files."""
    return seen.state.is_terminal and not seen.members and not seen.supervisor_live and not seen.holder_live


def reaches(ref: RunRef, state: RunState) -> Observation:
    return until(lambda: seen if (seen := see(ref)).state is state else None, f"{ref.run_id} is {state}")


def log_of(ref: RunRef) -> str:
    return RunPaths(ref.run_dir).log.read_text(encoding="utf-8")


def state_file(ref: RunRef, name: str) -> Path:
    return RunPaths(ref.run_dir).latest / "state" / name


def holder_pid(ref: RunRef) -> int:
    return int((ref.run_dir / "holder").read_text(encoding="utf-8").split()[0])


def pid_in(ref: RunRef, name: str) -> int:
    return int(state_file(ref, name).read_text(encoding="utf-8").split()[0])


def logged_pid(ref: RunRef, label: str) -> int:
    """The pid that the script printed as `label pid`."""

    def find() -> int | None:
        words = [line.split() for line in log_of(ref).splitlines()]
        return next((int(word[1]) for word in words if word[:1] == [label] and len(word) == 2), None)

    return until(lambda: find(), f"{ref.run_id} prints {label}")


def is_running(pid: int) -> bool:
    """Zombies have ended: only their parent has not asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def marked_processes(run_id: str) -> list[int]:
    """Who carries the mark of a run, found independently of supervise.sh."""
    mark = f"RLX_RUN={run_id}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def command_lines(*words: str) -> list[str]:
    """The command lines of live processes that contain all of these words."""
    lines = map(command_line, (int(folder.name) for folder in Path("/proc").glob("[0-9]*")))
    return [line for line in lines if all(word in line for word in words)]


def command_line(pid: int) -> str:
    """Its words, each with a space behind it; empty for one that has gone, as for a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
