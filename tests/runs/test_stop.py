"""rlx stop: everything of the run ends, nothing else does, and the answer says what was found."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.model import LOCAL, RunState
from rlx.runs import Index, RunPaths, query_leases, stop, stop_runs, take_snapshots
from tests.command import run_rlx
from tests.runs.toys import (
    FOREVER,
    ended,
    holder_pid,
    home,
    is_running,
    log_of,
    logged_pid,
    marked_processes,
    pid_in,
    reaches,
    see,
    start,
    start_one,
    state_file,
    toy_plan,
    until,
)
from tests.wording import settled

IGNORES_TERM = "trap '' TERM; echo up\n" + FOREVER
ESCAPES = """
setsid bash -c 'trap "" TERM; echo escaped $$; while :; do sleep 0.2; done' &
( ( env --unset=RLX_RUN_DIR bash -c 'echo orphan $$; while :; do sleep 0.2; done' & ) & )
env -i bash -c 'echo bare $$; while :; do sleep 0.2; done' &
while :; do sleep 0.2; done
"""


def test_a_cooperative_run_ends_its_own_way() -> None:
    ref = start_one("trap 'echo farewell; exit 0' TERM; echo up\n" + FOREVER)
    result = stop(ref, grace_s=60)
    assert result.ended and not result.left
    seen = see(ref)
    assert (seen.state, seen.exit_code) == (RunState.FINISHED, 0)
    assert "farewell" in log_of(ref)


def test_a_run_that_dies_of_the_signal_is_stopped_not_failed() -> None:
    ref = start_one(FOREVER)
    result = stop(ref, grace_s=10)
    assert result.ended and not result.left
    seen = see(ref)
    assert (seen.state, seen.exit_code) == (RunState.STOPPED, 143)


def test_a_run_that_ignores_the_request_is_forced() -> None:
    ref = start_one("echo child $$\n" + IGNORES_TERM)
    child = logged_pid(ref, "child")
    result = stop(ref, grace_s=1)
    assert child in result.ended and not result.left
    assert see(ref).state is RunState.STOPPED
    assert not is_running(child) and not marked_processes(ref.run_id)


def test_children_that_left_the_group_end_and_a_neighbour_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = start_one(ESCAPES)
    escaped = [logged_pid(ref, label) for label in ("escaped", "orphan", "bare")]
    # A second set of leases is a second machine: the neighbour runs at the same time, under nearly the same name.
    monkeypatch.setenv("RLX_LEASES", os.environ["RLX_LEASES"] + "-neighbour")
    neighbour = start_one(FOREVER)
    result = stop(ref, grace_s=1)
    assert not result.left
    assert not [pid for pid in escaped if is_running(pid)]
    assert see(ref).state is RunState.STOPPED
    assert not see(neighbour).state.is_terminal and see(neighbour).leader_live


def test_a_waiting_run_never_starts() -> None:
    first, second = start(toy_plan(f"echo up\n{FOREVER}", arm="a"), toy_plan("echo up", arm="b"))
    reaches(second, RunState.QUEUED)
    holder = holder_pid(second)
    result = stop(second, grace_s=5)
    assert result.ended == (holder,) and not result.left
    seen = see(second)
    assert (seen.state, seen.started_epoch) == (RunState.STOPPED, None)
    stop(first, grace_s=5)
    assert ended(second).state is RunState.STOPPED
    assert log_of(second) == ""


def test_stopping_all_does_not_start_the_one_that_waits() -> None:
    refs = start(*(toy_plan(f"echo up\n{FOREVER}", arm=arm) for arm in "abc"))
    until(lambda: "up" in log_of(refs[0]), "the first runs")
    results = tuple(stop_runs(refs, take_snapshots(Index(home()), refs), grace_s=5).stopped.values())
    assert [result.run_id for result in results] == [ref.run_id for ref in refs]
    assert [see(ref).state for ref in refs] == [RunState.STOPPED] * 3
    assert [see(ref).started_epoch is None for ref in refs] == [False, True, True]


def test_stopping_twice_or_after_the_end_changes_nothing() -> None:
    (ref,) = start(toy_plan("exit 4"))
    before = ended(ref)
    for _ in range(2):
        result = stop(ref, grace_s=1)
        assert not result.ended and not result.left
    after = see(ref)
    assert (after.state, after.exit_code, after.ended_epoch) == (before.state, 4, before.ended_epoch)


def test_a_lost_run_stays_lost_but_what_it_left_ends() -> None:
    ref = start_one("echo child $$\n" + FOREVER)
    child = logged_pid(ref, "child")
    for pid in (holder_pid(ref), pid_in(ref, "supervisor"), pid_in(ref, "leader")):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not see(ref).leader_live, "the leader is dead")
    result = stop(ref, grace_s=5)
    assert child in result.ended and not result.left
    assert see(ref).state is RunState.LOST


def test_a_stopped_supervisor_cannot_keep_the_run_alive() -> None:
    ref = start_one(FOREVER)
    supervisor = until(lambda: see(ref).supervisor_live and pid_in(ref, "supervisor"), "the supervisor reports")
    os.kill(supervisor, signal.SIGSTOP)
    result = stop(ref, grace_s=1)
    assert not result.left and not is_running(supervisor)
    assert see(ref).state is RunState.STOPPED


def test_stop_does_not_leave_the_temporary_folder() -> None:
    ref = start_one('echo "tmp $RLX_RAY_TMP"\n' + FOREVER)
    os.kill(pid_in(ref, "supervisor"), signal.SIGKILL)
    os.kill(holder_pid(ref), signal.SIGKILL)
    folder = state_file(ref, "ray_tmp").read_text(encoding="utf-8").strip()
    assert os.path.isdir(folder)  # noqa: PTH112 - a string from the host, not a path of ours
    stop(ref, grace_s=1)
    assert not os.path.exists(folder)  # noqa: PTH110


def test_stopping_a_run_whose_folder_is_gone_says_so(wording: SnapshotAssertion) -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    ref.run_dir.rename(ref.run_dir.with_name("elsewhere"))
    with pytest.raises(RlxError) as caught:
        stop(ref, grace_s=1)
    assert settled(caught.value.message, {str(ref.run_dir): "folder"}) == wording


def is_removed(folder: Path) -> bool:
    """Remove it. Its supervisor still writes there, and may put a file into what has just been emptied."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def test_a_run_whose_folder_was_removed_is_found_by_its_mark(wording: SnapshotAssertion) -> None:
    ref = start_one("cd /\n" + FOREVER)
    until(lambda: is_removed(ref.run_dir), "its folder is removed")
    seen = until(lambda: found if (found := see(ref)).members else None, "its processes are seen")
    assert seen.state is RunState.RUNNING
    assert settled(seen.detail, {ref.run_id: "run", f"{seen.members} of": "count"}) == wording
    result = stop(ref, grace_s=1)
    assert result.ended and not result.left
    until(lambda: not marked_processes(ref.run_id), "all of it is gone")
    until(lambda: not query_leases(LOCAL, os.environ["RLX_LEASES"]).held, "its device is free")
    assert see(ref).state is RunState.LOST
    with pytest.raises(RlxError, match=re.escape(str(ref.run_dir))):
        stop(ref, grace_s=1)


DAEMON = "(setsid env -i bash -c 'echo bare $$; while :; do sleep 0.2; done' &)\n"


def test_a_daemon_that_cleared_its_environment_is_told_and_not_ended() -> None:
    ref = start_one(DAEMON + FOREVER)
    bare = logged_pid(ref, "bare")
    try:
        assert bare not in marked_processes(ref.run_id)
        # Who reads the log, or stands in its folder, is none of the run's.
        log = RunPaths(ref.run_dir).log
        reader = subprocess.Popen(["tail", "-f", log], cwd=log.parent, stdout=subprocess.DEVNULL)
        done = run_rlx(["stop", "--grace", "1", ref.run_id])
        _, words, pids = done.stdout.decode().partition("left; OUTSIDE THE RUN, but writing to its files: ")
        # Its sleep may be there, too.
        told = pids.partition(";")[0].split()
        assert words and str(bare) in told and str(reader.pid) not in told
        assert is_running(bare) and reader.poll() is None
        reader.kill()
        reader.wait()
    finally:
        os.kill(bare, signal.SIGKILL)
    until(lambda: not is_running(bare), "it is gone")
    until(lambda: not stop(ref, grace_s=0).strays, "its last sleep is over")
