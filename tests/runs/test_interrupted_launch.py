"""Whenever rlx dies during a launch: no run, or one that status describes truthfully, and a retry completes it."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import NoSuchRun, RlxError, UsageError
from rlx.model import LaunchPlan, PlannedFile, RunState
from rlx.planning.preflight import sealed_plan
from rlx.runs import Index, RunPaths, RunRef, latest_launch, launch, resolve, take_snapshots
from tests.runs.toys import FOREVER, command_lines, ended, home, see, start, toy_plan, until

LAUNCH = """
import sys
from tests.runs.test_interrupted_launch import waiting_plans
from tests.runs.toys import start
plans = waiting_plans(sys.argv[1])
print("ready", flush=True)
start(*plans)
"""


def waiting_plans(go: str) -> list[LaunchPlan]:
    script = f"echo once >>count; until [ -e {go} ]; do sleep 0.05; done"
    # Files of some size, so that there is a time during which they travel.
    ballast = PlannedFile("ballast", "x" * 300_000)
    plans = [toy_plan(script, arm=arm) for arm in ("a", "b")]
    return [replace_files(plan, (*plan.files, ballast)) for plan in plans]


def replace_files(plan: LaunchPlan, files: tuple[PlannedFile, ...]) -> LaunchPlan:
    values = {name: getattr(plan, name) for name in LaunchPlan.__dataclass_fields__}
    return sealed_plan(LaunchPlan(**(values | {"files": files})))


def kill_a_launch_after(seconds: float, go: Path) -> None:
    """Kills rlx without warning, and waits until what it had started on the host has come to its end."""
    command = [sys.executable, "-c", LAUNCH, str(go)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    # Its shell may only just begin; `go` is in the command line of what rlx forked and what is no shell yet. Twice,
    # since a process may pass its work on to one whose place in /proc was looked at before.
    for words in ((str(go),), ("rlx-launch", os.environ["RLX_ROOT"])) * 2:
        until(lambda words=words: not command_lines(*words), "the launch has come to its end", 60)  # type: ignore[misc]
    # What one look at /proc may miss shows in the folder: a shell that is at work has its shipment there.
    runs = Path(os.environ["RLX_ROOT"], "runs")
    until(lambda: not list(runs.glob(".incoming-*")), "an unfinished shipment is removed")


def is_resolved() -> bool:
    index = home() / "index.db"
    if not index.exists():
        return False
    with closing(sqlite3.connect(index)) as db:
        return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]) and bool(
            db.execute("SELECT count(*) FROM launches WHERE resolved").fetchone()[0]
        )


@pytest.mark.parametrize("milliseconds", [0, 10, 20, 35, 50, 75, 110, 170, 260])
def test_a_killed_launch_is_told_truthfully_and_completed_by_the_same_launch(milliseconds: int, tmp_path: Path) -> None:
    go = tmp_path / "go"
    kill_a_launch_after(milliseconds / 1000, go)
    folders = sorted(path.name for path in Path(os.environ["RLX_ROOT"], "runs").glob("*"))
    arrived = Index(home()).runs()
    assert sorted(ref.run_id for ref in arrived) == [name for name in folders if not name.startswith(".")]
    assert not [name for name in folders if name.startswith(".")], "an unfinished shipment was left"
    for seen in take_snapshots(Index(home()), arrived).values():
        assert seen.state in (RunState.STARTING, RunState.QUEUED), seen
    if is_resolved():
        go.touch()
        return
    launched = launch(waiting_plans(str(go)), {}, home())
    assert {ref.run_id for ref in arrived} <= {ref.run_id for ref in launched.runs}
    go.touch()
    for ref in launched.runs:
        assert ended(ref).state is RunState.FINISHED
        assert (ref.run_dir / "count").read_text(encoding="utf-8") == "once\n"
    assert len(list(Path(os.environ["RLX_ROOT"], "runs").iterdir())) == 2
    assert latest_launch(Index(home())) == launched.runs


def test_a_launch_that_was_only_journaled_is_no_run_and_keeps_its_ids(tmp_path: Path) -> None:
    journaled = die_before_the_host_answers(tmp_path)
    index = Index(home())
    assert index.runs() == ()
    with pytest.raises(NoSuchRun):
        resolve(index, ["a"])
    launched = launch([toy_plan("true", arm="a")], {}, home())
    assert (launched.launch_id, launched.completed) == (journaled, True)
    ended(launched.runs[0])


def die_before_the_host_answers(tmp_path: Path) -> str:
    """A host whose shell kills rlx the moment the launch reaches it. Returns the id of the journaled launch."""
    deadly = tmp_path / "bin" / "sh"
    deadly.parent.mkdir()
    deadly.write_text(
        '#!/bin/dash\n[ "$3" != rlx-launch ] || { kill -s KILL $PPID; exit; }\nexec /bin/sh "$@"\n', encoding="utf-8"
    )
    deadly.chmod(0o755)
    code = "from tests.runs.toys import start, toy_plan\nstart(toy_plan('true', arm='a'))"
    environment = {**os.environ, "PATH": f"{deadly.parent}:{os.environ['PATH']}"}
    killed = subprocess.run([sys.executable, "-c", code], env=environment, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with closing(sqlite3.connect(home() / "index.db")) as db:
        return str(db.execute("SELECT launch_id FROM launches WHERE NOT resolved").fetchone()[0])


def test_a_run_whose_start_never_came_is_lost_until_the_same_launch_starts_it(
    tmp_path: Path, wording: SnapshotAssertion
) -> None:
    plan = toy_plan("echo once >>count", arm="limbo")
    (ref,) = start(plan)
    ended(ref)
    # Back to the moment between the arrival and the start: all that the start and the end have written goes.
    set_back(ref)
    assert see(ref).state is RunState.STARTING
    os.utime(ref.run_dir / "manifest.json", (0, 0))
    seen = see(ref)
    assert (seen.state, seen.detail) == (RunState.LOST, wording)
    (again,) = start(plan)
    assert again == ref
    assert ended(ref).state is RunState.FINISHED
    assert (ref.run_dir / "count").read_text(encoding="utf-8") == "once\n"


def set_back(ref: RunRef) -> None:
    for name in ("holder", "holder.log", "count"):
        (ref.run_dir / name).unlink()
    state = RunPaths(ref.run_dir).latest / "state"
    (state / "started").rmdir()
    for path in state.iterdir():
        # Of a heartbeat that is just being written: the process that does it is told to end, and not waited for.
        path.unlink(missing_ok=True)
    for writer in ("leader", "supervisor", "stop"):
        (state / f"reserved.{writer}").write_text(" " * 62 + "\n", encoding="utf-8")
    (ref.run_dir / "manifest.json").touch()
    with closing(sqlite3.connect(home() / "index.db")) as db:
        db.execute("UPDATE launches SET resolved = 0")
        db.commit()


def test_a_launch_of_the_same_plans_after_a_finished_one_is_a_new_launch() -> None:
    plan = toy_plan("true")
    (first,) = start(plan)
    (second,) = start(plan)
    assert first.launch_id != second.launch_id
    assert ended(first).state is ended(second).state is RunState.FINISHED


def test_two_launches_of_different_plans_at_once_both_arrive(tmp_path: Path) -> None:
    code = "import sys\nfrom tests.runs.toys import start, toy_plan\nstart(toy_plan('true', arm=sys.argv[1]))"
    arms = ["a", "b", "c"]
    racers = [subprocess.Popen([sys.executable, "-c", code, arm]) for arm in arms]
    assert [racer.wait(timeout=60) for racer in racers] == [0, 0, 0]
    refs = resolve(Index(home()), arms)
    assert [ended(ref).state for ref in refs] == [RunState.FINISHED] * 3


def test_the_same_launch_typed_twice_at_once_runs_once_or_twice_but_never_doubles_a_run() -> None:
    code = "from tests.runs.toys import start, toy_plan\nstart(toy_plan('echo once >>count', arm='same'))"
    racers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [racer.wait(timeout=60) for racer in racers] == [0, 0, 0]
    for ref in Index(home()).runs():
        ended(ref)
        assert (ref.run_dir / "count").read_text(encoding="utf-8") == "once\n"


def test_a_tmux_that_cannot_start_is_an_error_that_quotes_it_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RLX_TMUX_SOCKET", "no/such/folder")
    with pytest.raises(RlxError, match=r"tmux .*: .*No such file") as caught:
        start(toy_plan("true"))
    assert "Traceback" not in str(caught.value)
    assert list(Path(os.environ["RLX_ROOT"], "runs").iterdir()) == []
    assert Index(home()).runs() == ()
    monkeypatch.setenv("RLX_TMUX_SOCKET", f"rlx-test-{os.getpid()}")
    (ref,) = start(toy_plan("true"))
    assert ended(ref).state is RunState.FINISHED
    subprocess.run(["tmux", "-L", f"rlx-test-{os.getpid()}", "kill-server"], capture_output=True, check=False)


def test_a_root_that_cannot_be_written_is_an_error_and_leaves_nothing() -> None:
    root = Path(os.environ["RLX_ROOT"])
    root.write_text("not a folder", encoding="utf-8")
    with pytest.raises(RlxError, match=re.escape(str(root))):
        start(toy_plan("true"))
    root.unlink()
    assert Index(home()).runs() == ()


@pytest.mark.parametrize(
    "change",
    [
        {"arm": "../up"},
        {"name": "a b"},
        {"name": "-n"},
        {"device_kind": "cpu\ncpu"},
        {"devices": 0},
        {"files": ()},
        {"files": (PlannedFile("../launch.sh", ""),)},
        {"files": (PlannedFile("/etc/passwd", ""),)},
        {"files": (PlannedFile("attempts/1/state/exit", "0"),)},
        {"secrets": ("TOKEN",)},
        {"secrets": ("A B",)},
    ],
    ids=[
        *("arm", "name with a space", "name like an option", "device kind", "no devices", "no files", "above"),
        *("absolute", "state", "no value", "no variable"),
    ],
)
def test_a_plan_that_cannot_become_a_run_is_refused_before_anything_is_written(
    change: dict[str, object], wording: SnapshotAssertion
) -> None:
    plan = toy_plan("true")
    values = {name: getattr(plan, name) for name in LaunchPlan.__dataclass_fields__}
    with pytest.raises(UsageError) as caught:
        start(LaunchPlan(**(values | change)))
    assert caught.value.message == wording
    assert not home().exists() and not Path(os.environ["RLX_ROOT"]).exists()


def test_the_latest_launch_shows_what_is_under_way() -> None:
    (ref,) = start(toy_plan(FOREVER))
    assert latest_launch(Index(home())) == (ref,)
    until(lambda: see(ref).leader_live, "it runs")
