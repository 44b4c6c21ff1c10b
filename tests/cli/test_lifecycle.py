"""status, logs, wait and attach over small real runs."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import RunState
from rlx.runs import RunRef
from tests.cli.support import rlx
from tests.cli.terminal import detached
from tests.runs.toys import FOREVER, ended, log_of, reaches, start, start_one, state_file, toy_plan, until
from tests.wording import settled

STEPS = r"""
for step in 1 2 3; do
    echo "(TaskRunner pid=7) step:$step - timing_s/step:0.5 - val-core/toy/acc/mean@1:0.25"
    echo "{\"step\": $step, \"data\": {\"timing_s/step\": 0.5, \"val-core/toy/acc/mean@1\": 0.25}}" \
        >> "$RLX_ATTEMPT_DIR/metrics.jsonl"
done
"""


def two_arms() -> None:
    runs = start(toy_plan(f"echo of-baseline; {STEPS}", arm="baseline"), toy_plan("echo of-aqn", arm="aqn"))
    for ref in runs:
        ended(ref)


def test_status_shows_progress_pace_and_the_last_validation() -> None:
    two_arms()
    runs = {run["arm"]: run for run in json.loads(rlx("status", "--json").stdout)["runs"]}
    assert list(runs) == ["baseline", "aqn"]
    assert runs["baseline"]["state"] == "finished"
    assert runs["baseline"]["steps_done"] == 3
    assert runs["baseline"]["step_seconds"] == 0.5
    assert runs["baseline"]["last_validation"] == {"step": 3, "value": 0.25}
    table = rlx("status").stdout
    assert "step 3/?" in table
    assert "0.2500 @3" in table


def test_status_of_an_empty_house_says_how_to_begin(wording: SnapshotAssertion) -> None:
    assert rlx("status").stderr == wording
    assert json.loads(rlx("status", "--json").stdout)["runs"] == []


def test_quiet_leaves_the_answer_and_the_errors(wording: SnapshotAssertion) -> None:
    assert rlx("--quiet", "status").stderr == ""
    assert rlx("--quiet", "logs", code=12).stderr == wording


def test_watching_ends_with_the_runs() -> None:
    start(toy_plan("sleep 1"))
    assert "finished" in rlx("status", "-w").stdout.splitlines()[-1]


@pytest.mark.contract
def test_reading_commands_write_nothing_on_the_host() -> None:
    (ref,) = start(toy_plan(STEPS))
    ended(ref)

    def files() -> dict[str, tuple[int, int]]:
        return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in ref.run_dir.rglob("*")}

    until(lambda: not (ref.run_dir / "ticket").exists(), "the run is tidied up")
    before = files()
    for command in (["status", "-v"], ["logs"], ["wait"], ["logs", "--grep", "step"]):
        rlx(*command)
    assert files() == before


def test_logs_of_the_latest_launch_carry_their_arm() -> None:
    two_arms()
    assert rlx("logs", "--grep", "of-").stdout.splitlines() == ["baseline | of-baseline", "aqn | of-aqn"]
    assert rlx("logs", "aqn").stdout == "of-aqn\n"
    assert rlx("logs", "baseline", "-n", "1", "--grep", "step").stdout.count("step:3") == 1


def test_a_pattern_that_is_none_is_told_before_anything_is_read() -> None:
    two_arms()
    error = rlx("logs", "--grep", "a(b", code=2).stderr
    assert "'a(b'" in error and "  fix: " in error


@pytest.mark.parametrize("pattern", ["-n", "--version", "$(touch pwned)", "'; touch pwned; '"])
def test_a_pattern_is_never_taken_for_something_else(pattern: str, tmp_path: Path) -> None:
    two_arms()
    assert rlx("logs", "--grep", f"{pattern}", "aqn", code=1).stdout == ""
    assert not list(tmp_path.rglob("pwned"))


def test_control_sequences_of_a_log_do_not_reach_the_terminal() -> None:
    (ref,) = start(toy_plan(r"printf '\033]0;owned\007\033[2Jred\rgreen\n'"))
    ended(ref)
    assert rlx("logs").stdout == "red\ngreen\n"


def test_following_shows_every_line_and_ends_with_the_run() -> None:
    start(toy_plan("for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done"))
    assert rlx("logs", "-f").stdout.splitlines() == [f"line {i}" for i in range(1, 6)]


def test_following_a_queued_run_waits_for_its_log() -> None:
    start(toy_plan("echo first; sleep 1", arm="a"), toy_plan("echo second", arm="b"))
    assert rlx("logs", "-f", "b").stdout == "second\n"


@pytest.mark.contract
def test_ctrl_c_detaches_and_the_run_goes_on(wording: SnapshotAssertion) -> None:
    ref = start_one(FOREVER)
    # Tests that a script started in the background ignore SIGINT, and so would their children.
    follow = subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "rlx", "logs", "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert follow.stdout is not None
    assert follow.stdout.readline() == "up\n"
    follow.send_signal(signal.SIGINT)
    _, narration = follow.communicate(timeout=60)
    assert follow.returncode == 130
    assert narration == wording
    reaches(ref, RunState.STARTING)


def test_since_dates_lines_by_when_they_were_written() -> None:
    ref = start_one(f"until [ -e go ]; do sleep 0.1; done; echo late; {FOREVER}")
    until(lambda: dates(ref)[-1:] == [len("up\n")], "the supervisor dates the first line")
    clock = state_file(ref, "clock")
    earlier = [
        f"{int(line.split()[0]) - 3600} {line.split()[1]}\n" for line in clock.read_text(encoding="utf-8").splitlines()
    ]
    clock.with_name("earlier").write_text("".join(earlier), encoding="utf-8")
    clock.with_name("earlier").replace(clock)
    (ref.run_dir / "go").touch()
    until(lambda: "late" in log_of(ref), "the late line")
    assert rlx("logs", "--since", "10m").stdout == "late\n"
    assert rlx("logs", "--since", "2h").stdout == "up\nlate\n"
    assert "'yesterday'" in rlx("logs", "--since", "yesterday", code=2).stderr


def dates(ref: RunRef) -> list[int]:
    """How long the log was whenever the supervisor looked."""
    clock = state_file(ref, "clock")
    return [int(line.split()[1]) for line in clock.read_text(encoding="utf-8").splitlines()] if clock.exists() else []


@pytest.mark.parametrize(("script", "code", "word"), [("exit 7", 10, "failed"), ("kill -9 $$", 10, "failed")])
def test_wait_tells_how_a_run_ended(script: str, code: int, word: str) -> None:
    start(toy_plan(script))
    assert f"  {word}  " in rlx("wait", code=code).stdout


def test_wait_tells_a_stop_from_a_failure() -> None:
    ref = start_one(FOREVER)
    rlx("stop", ref.run_id)
    assert "  stopped  " in rlx("wait", code=13).stdout


def test_wait_gives_up_in_time() -> None:
    ref = start_one(FOREVER)
    told = rlx("wait", "--timeout", "2s", code=11).stderr
    assert told.splitlines()[0] == f"waiting: {ref.run_id} starting"


def test_an_unknown_run_is_told_at_once_with_the_nearest_name() -> None:
    two_arms()
    for command in ("status", "logs", "wait", "attach", "stop"):
        error = rlx(command, "baselin", code=12).stderr
        assert "'baselin'" in error and re.search(r"\bbaseline\b", error)


def test_attach_needs_a_terminal() -> None:
    start_one(FOREVER)
    assert "rlx logs -f" in rlx("attach", code=1).stderr


@pytest.mark.contract
def test_attach_shows_the_session_and_leaves_the_run_alone() -> None:
    ref = start_one(FOREVER)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "rlx", "attach"])
    shown = b""
    while b"up" not in shown:
        shown += os.read(terminal, 4096)
    assert detached(terminal, pid) == 0
    reaches(ref, RunState.STARTING)


def test_attach_to_what_has_ended_says_where_the_log_is(wording: SnapshotAssertion) -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    error = rlx("attach", code=1).stderr
    assert f"rlx logs {ref.run_id}" in error and settled(error, {ref.run_id: "run"}) == wording
