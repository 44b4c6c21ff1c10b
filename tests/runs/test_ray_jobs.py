"""Jobs that a run's script submits to a Ray: the run lives and ends as they do, and stop ends them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlx.model import RunState
from rlx.runs import RunRef, stop
from tests.runs.ray_dashboard import Dashboard, dashboard, job_plan
from tests.runs.toys import (
    command_line,
    ended,
    holder_pid,
    log_of,
    marked_processes,
    pid_in,
    see,
    start,
    state_file,
    until,
)

RUNS_ON = "echo began; while :; do sleep 0.1; done"


@pytest.fixture
def ray(tmp_path: Path) -> Iterator[Dashboard]:
    with dashboard(tmp_path) as server:
        yield server


def submit(ray: Dashboard, how: str, command: str, name: str = "j1", options: str = "") -> str:
    return f"submit {ray.address} {name} {how} other '{command}' {options}\n"


def launched(script: str) -> RunRef:
    (ref,) = start(job_plan(script))
    return ref


def runs_alone(ref: RunRef) -> None:
    """Until the script has ended, and what follows its job has seen it run."""
    until(lambda: state_file(ref, "script").exists() and see(ref).state is RunState.RUNNING, "the job runs")


@pytest.mark.parametrize(
    ("how", "command", "state", "code"),
    [
        ("wait", "echo one; echo two", RunState.FINISHED, 0),
        ("wait", "echo one; echo two; exit 3", RunState.FAILED, 3),
        ("no-wait", "echo one; sleep 3; echo two", RunState.FINISHED, 0),
        ("no-wait", "echo one; sleep 3; echo two; exit 3", RunState.FAILED, 3),
    ],
)
def test_a_run_ends_as_its_job_does_and_has_its_log_once(
    ray: Dashboard, how: str, command: str, state: RunState, code: int
) -> None:
    ref = launched(submit(ray, how, command) + "echo after")
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (state, code)
    log = log_of(ref).splitlines()
    assert [log.count(line) for line in ("one", "two", "after")] == [1, 1, 1]
    assert any(line.startswith("rlx: Ray job j1 at http://127.0.0.1:") and "has ended" in line for line in log)


def test_a_script_that_hides_the_failure_of_its_job_has_failed(ray: Dashboard) -> None:
    seen = ended(launched(submit(ray, "wait", "exit 3").strip() + " | cat\n"))
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 3)


def test_a_script_whose_stream_is_cut_ends_as_its_job_does(ray: Dashboard) -> None:
    lines = "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.5; done"
    cut = "until grep -q 'line 2' $RLX_ATTEMPT_DIR/log; do sleep 0.1; done\nkill -s KILL $!\nexit 1\n"
    ref = launched(f"python3 $RLX_RUN_DIR/submit.py {ray.address} j1 wait other '{lines}' &\n{cut}")
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FINISHED, 0)
    assert [line for line in log_of(ref).splitlines() if line.startswith("line")] == [f"line {i}" for i in range(1, 9)]


def test_a_run_whose_script_has_ended_runs_and_keeps_its_device(ray: Dashboard) -> None:
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    runs_alone(ref)
    until(lambda: "began" in log_of(ref), "the log of the job comes")
    seen = see(ref)
    assert seen.detail == f"its Ray job j1 at {ray.address} is RUNNING"
    waiting = launched("echo next")
    assert see(waiting).state is RunState.QUEUED
    result = stop(ref, grace_s=10)
    assert (result.ray_jobs, result.ray_left, result.left) == ((f"j1 at {ray.address}",), (), ())
    assert ray.jobs["j1"].status == "STOPPED"
    assert (see(ref).state, see(ref).exit_code) == (RunState.STOPPED, 143)
    assert ended(waiting).state is RunState.FINISHED


def test_a_job_that_waits_for_resources_is_starting_and_can_be_stopped(ray: Dashboard) -> None:
    ray.pending.add("j1")
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    until(lambda: "j1 at" in see(ref).detail and state_file(ref, "script").exists(), "its job is known")
    assert (see(ref).state, "is PENDING" in see(ref).detail) == (RunState.STARTING, True)
    assert stop(ref, grace_s=10).ray_jobs
    assert (see(ref).state, ray.jobs["j1"].status) == (RunState.STOPPED, "STOPPED")


def test_stop_ends_a_job_whose_script_waits_and_no_other_one(ray: Dashboard) -> None:
    ray.submit("other", RUNS_ON)
    ref = launched(submit(ray, "wait", RUNS_ON))
    until(lambda: "began" in log_of(ref) and "j1 at" in see(ref).detail, "the job runs")
    result = stop(ref, grace_s=10)
    assert (result.ray_jobs, result.left) == ((f"j1 at {ray.address}",), ())
    assert (see(ref).state, ray.jobs["j1"].status, ray.jobs["other"].status) == (RunState.STOPPED, "STOPPED", "RUNNING")
    assert not [asked for asked in ray.asked if "other" in asked]


def test_a_dashboard_that_does_not_answer_ends_nothing_and_gives_nothing_back(ray: Dashboard) -> None:
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    runs_alone(ref)
    ray.silence()
    until(lambda: "has not answered for" in see(ref).detail, "status says so")
    result = stop(ref, grace_s=1)
    assert (result.ray_jobs, result.ray_left) == ((), (f"j1 at {ray.address} (connection refused)",))
    assert ray.jobs["j1"].status == "RUNNING"
    waiting = launched("echo next")
    assert not see(ref).state.is_terminal and see(waiting).state is RunState.QUEUED
    assert "it was to stop" in see(ref).detail
    # As soon as it answers again, the stop that was asked for is carried out.
    ray.serve()
    assert (ended(ref).state, ray.jobs["j1"].status) == (RunState.STOPPED, "STOPPED")
    assert ended(waiting).state is RunState.FINISHED


def test_a_job_that_cannot_be_stopped_can_be_given_up(ray: Dashboard) -> None:
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    runs_alone(ref)
    ray.silence()
    assert stop(ref, grace_s=1, abandon_jobs=True).ray_left == (f"j1 at {ray.address} (connection refused)",)
    assert (ended(ref).state, see(ref).exit_code) == (RunState.STOPPED, 143)
    assert ended(launched("echo next")).state is RunState.FINISHED
    assert not of_run(ref)


@pytest.mark.parametrize("killed", [("leader",), ("supervisor",), ("leader", "supervisor")])
def test_what_was_killed_is_replaced_and_finds_the_job_again(ray: Dashboard, killed: tuple[str, ...]) -> None:
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    runs_alone(ref)
    for name in killed:
        os.kill(pid_in(ref, name), signal.SIGKILL)
    until(lambda: see(ref).leader_live is ("leader" not in killed), "it is gone")
    assert (see(ref).state, see(ref).holder_live) == (RunState.RUNNING, True)
    ray.jobs["j1"].finish()
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 137)
    assert log_of(ref).count("has ended: FAILED") == 1


def test_a_run_of_which_nothing_is_left_runs_as_long_as_its_job(ray: Dashboard) -> None:
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    runs_alone(ref)
    kill_all(ref)
    seen = see(ref)
    assert (seen.state, seen.members, seen.holder_live) == (RunState.RUNNING, 0, False)
    assert "no process follows it" in seen.detail
    ray.silence()
    assert see(ref).state is RunState.UNREACHABLE
    ray.serve()
    result = stop(ref, grace_s=1)
    assert (result.ray_jobs, result.ray_left) == ((f"j1 at {ray.address}",), ())
    assert (see(ref).state, ray.jobs["j1"].status) == (RunState.STOPPED, "STOPPED")


def test_the_next_launch_follows_again_what_nobody_follows(ray: Dashboard, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    waits = f"echo began; until [ -e {go_on} ]; do sleep 0.1; done; echo more; exit 3"
    ref = launched(submit(ray, "no-wait", waits))
    runs_alone(ref)
    kill_all(ref)
    waiting = launched("echo next")
    until(lambda: see(ref).supervisor_live, "it is followed again")
    assert (see(ref).state, see(waiting).state) == (RunState.RUNNING, RunState.QUEUED)
    go_on.touch()
    seen = ended(ref)
    assert (seen.state, seen.exit_code, log_of(ref).splitlines().count("more")) == (RunState.FAILED, 3, 1)
    assert ended(waiting).state is RunState.FINISHED


def test_a_job_whose_cluster_was_started_again_has_failed(ray: Dashboard) -> None:
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    runs_alone(ref)
    ray.restart()
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 1)
    assert "has ended: GONE" in log_of(ref)


def test_a_job_whose_processes_are_gone_with_their_cluster_has_ended(ray: Dashboard) -> None:
    ref = launched(submit(ray, "no-wait", RUNS_ON))
    runs_alone(ref)
    until(
        lambda: state_file(ref, "ray_jobs").read_text(encoding="utf-8").split()[-5] == "1", "its driver was seen here"
    )
    ray.silence()
    ray.end_all()
    assert ended(ref).state is RunState.FAILED
    assert "has ended: GONE" in log_of(ref)


def test_what_was_never_submitted_holds_nothing_up(ray: Dashboard) -> None:
    record = '{"submission_id": "j1", "address": "http://127.0.0.1:1", "at": 1, "ray": "ray", "own": false}'
    ref = launched(f"echo '{record}' >$RLX_ATTEMPT_DIR/ray_jobs.jsonl\nexit 4")
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 4)


def test_a_job_that_no_wrapper_saw_is_found_by_what_ray_prints(ray: Dashboard) -> None:
    ref = launched(submit(ray, "no-wait", "sleep 3; echo two; exit 5", options="unrecorded"))
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 5)
    assert "two" in log_of(ref).splitlines()


def test_a_job_that_a_program_submits_to_the_runs_own_ray_is_found_there(ray: Dashboard) -> None:
    cluster = f'[{{"host": "127.0.0.1", "ports": {{"--dashboard-port": {ray.port}}}}}]'
    quietly = submit(ray, "no-wait", "sleep 3; echo two; exit 5", options="unrecorded").strip() + " >/dev/null\n"
    ref = launched(f"echo '{cluster}' >$RLX_RAY_TMP/contained.json\n{quietly}")
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 5)
    assert "two" in log_of(ref).splitlines() and "Terminated" not in log_of(ref)


def test_secrets_are_masked_in_the_log_of_a_job(ray: Dashboard) -> None:
    (ref,) = start(
        job_plan(submit(ray, "no-wait", "echo hush-hush-hush"), secrets=("T",)), secrets={"T": "hush-hush-hush"}
    )
    assert ended(ref).state is RunState.FINISHED
    assert "***" in log_of(ref).splitlines() and "hush" not in log_of(ref)


def test_the_runs_own_token_goes_to_its_own_cluster_alone(tmp_path: Path) -> None:
    with dashboard(tmp_path, token="given") as ray:
        text = f'printf given >"$RLX_RAY_TMP/token"\nsubmit {ray.address} NAME no-wait OWN "exit 3"\nsleep 5\n'
        own = launched(text.replace("NAME", "j1").replace("OWN", "own"))
        assert (ended(own).state, see(own).exit_code) == (RunState.FAILED, 3)
        other = launched(text.replace("NAME", "j2").replace("OWN", "other"))
        until(lambda: "has not answered for" in see(other).detail, "it is refused")
        (left,) = stop(other, grace_s=0).ray_left
        assert left == f"j2 at {ray.address} (it answered 401 Unauthorized)"
        ray.token = ""
        # It was asked to stop, and its job ended by itself.
        assert (ended(other).state, see(other).exit_code) == (RunState.STOPPED, 3)


def kill_all(ref: RunRef) -> None:
    """The holder, the supervisor, and whatever else was started for the run: as a machine that lost its power."""
    for pid in (holder_pid(ref), pid_in(ref, "supervisor"), pid_in(ref, "leader")):
        os.kill(pid, signal.SIGKILL)
    for pid in [*marked_processes(ref.run_id), *of_run(ref)]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not see(ref).leader_live and not of_run(ref), "all of it is gone")


def of_run(ref: RunRef) -> list[int]:
    """Processes of rlx that have the run directory as an argument."""
    return [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if int(folder.name) != os.getpid() and str(ref.run_dir) in command_line(int(folder.name))
    ]
