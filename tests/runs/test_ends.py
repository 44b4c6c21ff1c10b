"""How runs end, and what is known of it whoever is killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from rlx.model import RunState
from rlx.runs import Index, RunRef, take_snapshots
from tests.runs.toys import (
    FOREVER,
    command_lines,
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

WAITS_FOR_FILE = "until [ -e go ]; do sleep 0.05; done\necho done\nexit 3\n"


def let_go(ref: RunRef) -> None:
    (ref.run_dir / "go").touch()


@pytest.mark.parametrize(
    ("script", "state", "code"),
    [
        ("echo hi", RunState.FINISHED, 0),
        ("exit 7", RunState.FAILED, 7),
        ("kill -s SEGV $$", RunState.FAILED, 128 + signal.SIGSEGV),
        ("kill -s KILL $$", RunState.FAILED, 128 + signal.SIGKILL),
        ("kill -s TERM $$", RunState.FAILED, 128 + signal.SIGTERM),
    ],
)
def test_the_exit_of_the_command_is_the_end_of_the_run(script: str, state: RunState, code: int) -> None:
    (ref,) = start(toy_plan(script))
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (state, code)
    assert seen.started_epoch is not None and seen.ended_epoch is not None
    assert seen.ended_epoch >= seen.started_epoch


def test_a_run_counts_as_running_once_it_reports_metrics() -> None:
    ref = start_one('until [ -e go ]; do sleep 0.05; done; echo "{}" >"$RLX_ATTEMPT_DIR/metrics.jsonl"\n' + FOREVER)
    assert see(ref).state is RunState.STARTING
    let_go(ref)
    reaches(ref, RunState.RUNNING)


def test_what_outlives_the_command_is_ended_but_not_what_looks_alike() -> None:
    stray = "setsid bash -c 'echo stray $$; touch strays; while :; do sleep 0.2; done' &\n"
    ref = start_one(f"{stray}until [ -e strays ]; do sleep 0.05; done\n")
    pid = logged_pid(ref, "stray")
    twin = subprocess.Popen(["sleep", "60"], env={"RLX_RUN": ref.run_id + "0", "PATH": os.environ["PATH"]})
    try:
        assert ended(ref).state is RunState.FINISHED
        until(lambda: not is_running(pid), "the stray child ends")
        assert twin.poll() is None
    finally:
        twin.kill()
        twin.wait()


def test_a_killed_leader_is_a_failed_run_and_takes_its_children_along() -> None:
    ref = start_one("echo child $$\n" + FOREVER)
    child = logged_pid(ref, "child")
    os.kill(pid_in(ref, "leader"), signal.SIGKILL)
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 137)
    assert "SIGKILL" in seen.detail
    assert child not in marked_processes(ref.run_id)


@pytest.mark.parametrize("victim", ["supervisor", "holder", "tmux"])
def test_a_run_outlives_its_watchers_and_ends_as_what_it_was(victim: str) -> None:
    ref = start_one(WAITS_FOR_FILE)
    until(state_file(ref, "leader").exists, "the leader reports")
    if victim == "tmux":
        subprocess.run(["tmux", "-L", os.environ["RLX_TMUX_SOCKET"], "kill-server"], check=True)
    else:
        os.kill(holder_pid(ref) if victim == "holder" else pid_in(ref, "supervisor"), signal.SIGKILL)
    until(lambda: not see(ref).supervisor_live or victim != "supervisor", "the victim is dead")
    assert not see(ref).state.is_terminal
    let_go(ref)
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 3)
    assert "done" in log_of(ref)
    until(lambda: not command_lines("tail ", str(ref.run_dir)), "nobody is left to show the log")


def test_the_holder_survives_tmux_and_goes_on_holding() -> None:
    ref = start_one(WAITS_FOR_FILE)
    holder = until(lambda: holder_pid(ref) if state_file(ref, "leader").exists() else None, "the leader reports")
    subprocess.run(["tmux", "-L", os.environ["RLX_TMUX_SOCKET"], "kill-server"], check=True)
    waiting, *_ = start(toy_plan("true", arm="next"))
    assert is_running(holder)
    assert see(waiting).state is RunState.QUEUED
    let_go(ref)
    ended(waiting)
    until(lambda: not is_running(holder), "the holder ends after its run")


def test_a_supervisor_that_is_asked_to_end_passes_it_on() -> None:
    ref = start_one("trap 'echo asked; exit 5' TERM; echo up\n" + FOREVER)
    # Its leader runs before it is ready for the signal.
    supervisor = pid_in(ref, "supervisor")
    until(lambda: catches(supervisor, signal.SIGTERM), "it has a trap for it")
    os.kill(supervisor, signal.SIGTERM)
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 5)
    assert "asked" in log_of(ref)


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal, as the kernel tells."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    (mask,) = (line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_an_end_that_nobody_recorded_is_lost_and_only_once_nothing_is_alive() -> None:
    ref = start_one(FOREVER)
    until(state_file(ref, "leader").exists, "the leader reports")
    for pid in (holder_pid(ref), pid_in(ref, "supervisor"), pid_in(ref, "leader")):
        os.kill(pid, signal.SIGKILL)
    seen = until(lambda: seen if not (seen := see(ref)).leader_live else None, "the leader is dead")
    assert seen.state is RunState.STARTING and seen.members > 0
    until(lambda: not killed(ref), "nothing of it is left")
    reaches(ref, RunState.LOST)


def killed(ref: RunRef) -> list[int]:
    """Whom of the run it has killed: who bears its mark now, since a pid that was seen before may be another's."""
    found = marked_processes(ref.run_id)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def test_the_same_run_starts_once_however_many_try() -> None:
    (ref,) = start(toy_plan("echo once >>count; sleep 0.3"))
    command = ["sh", str(ref.run_dir / "supervise.sh"), "run", str(ref.run_dir), "0"]
    racers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(8)]
    for racer in racers:
        racer.wait(timeout=30)
    ended(ref)
    assert (ref.run_dir / "count").read_text(encoding="utf-8") == "once\n"
    holders = [
        subprocess.run([*command[:2], "hold", str(ref.run_dir), os.environ["RLX_LEASES"], "cpu", "1"], check=False)
        for _ in range(2)
    ]
    assert all(holder.returncode != 0 for holder in holders)
    assert (ref.run_dir / "count").read_text(encoding="utf-8") == "once\n"


def test_the_temporary_folder_of_a_run_is_private_and_goes_with_it() -> None:
    (ref,) = start(toy_plan('stat -c "%a %n" "$RLX_RAY_TMP" "$RLX_RAY_TMP/token"; wc -c <"$RLX_RAY_TMP/token"'))
    ended(ref)
    folder, token, size = log_of(ref).splitlines()
    assert folder.startswith("700 /tmp/rlx-") and token.startswith("600 ") and int(size) == 64
    assert not Path(folder.split()[1]).exists()


def test_a_run_sees_the_start_variables_and_nothing_of_the_callers_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-the-run")
    (ref,) = start(toy_plan("env; pwd; grep SigIgn /proc/self/status"))
    ended(ref)
    log = log_of(ref)
    attempt = ref.run_dir / "attempts" / "1"
    for line in (f"RLX_RUN={ref.run_id}", f"RLX_RUN_DIR={ref.run_dir}", f"RLX_ATTEMPT_DIR={attempt}", "RLX_DEVICES=0"):
        assert line in log.splitlines()
    assert "not-for-the-run" not in log and "RLX_HOME" not in log and "TMUX" not in log
    assert str(ref.run_dir) in log.splitlines()
    # The signals a program may handle. Those above 31 are the C library's own, and kept as the tests were started.
    (ignored,) = (line.split()[1] for line in log.splitlines() if line.startswith("SigIgn:"))
    assert int(ignored, 16) & 0x7FFFFFFF == 0


def test_without_tmux_a_run_works_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            if program.name != "tmux" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    ref = start_one(WAITS_FOR_FILE)
    os.kill(holder_pid(ref), signal.SIGHUP)
    let_go(ref)
    assert ended(ref).exit_code == 3
    assert "done" not in (ref.run_dir / "holder.log").read_text(encoding="utf-8")


def test_a_run_that_was_removed_does_not_hide_the_others() -> None:
    first, second = start(toy_plan("true", arm="a"), toy_plan("true", arm="b"))
    ended(second)
    first.run_dir.rename(first.run_dir.with_name("elsewhere"))
    seen = take_snapshots(Index(home()), [first, second])
    assert seen[first.run_id].state is RunState.LOST and "gone" in seen[first.run_id].observation.detail
    assert seen[second.run_id].state is RunState.FINISHED
