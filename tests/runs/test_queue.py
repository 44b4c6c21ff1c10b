"""Runs wait for devices in the order they were launched, and nobody gets a device that is still in use."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.model import LaunchPlan, RunState
from tests.runs.toys import (
    FOREVER,
    ended,
    holder_pid,
    is_running,
    log_of,
    pid_in,
    reaches,
    see,
    start,
    start_one,
    state_file,
    toy_plan,
    until,
)


def writes_turn(turns: Path) -> str:
    return f'echo "begin $RLX_RUN" >>{turns}; sleep 0.1; echo "end $RLX_RUN" >>{turns}'


def test_runs_take_turns_in_the_order_of_the_launch(tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    refs = start(*(toy_plan(writes_turn(turns), arm=arm) for arm in ("c", "a", "b")))
    for ref in refs:
        assert ended(ref).state is RunState.FINISHED
    expected = [f"{word} {ref.run_id}" for ref in refs for word in ("begin", "end")]
    assert turns.read_text(encoding="utf-8").splitlines() == expected


def test_what_waits_says_behind_how_many() -> None:
    first, second, third = start(*(toy_plan(f"echo up\n{FOREVER}", arm=arm) for arm in "abc"))
    until(lambda: "up" in log_of(first), "the first runs")
    assert [see(ref).queued_behind for ref in (first, second, third)] == [0, 1, 2]
    assert see(third).detail == "behind 2 runs"


def test_the_next_run_starts_after_the_children_of_the_last_are_gone(tmp_path: Path) -> None:
    slow = tmp_path / "slow-child-ended"
    child = f"setsid bash -c 'trap \"sleep 1; touch {slow}; exit\" TERM; touch listens; while :; do sleep 0.1; done'"
    script = f"{child} & until [ -e listens ]; do sleep 0.05; done"
    first, second = start(toy_plan(script, arm="a"), toy_plan(f"ls {slow}", arm="b"))
    assert ended(first).state is RunState.FINISHED
    assert ended(second).state is RunState.FINISHED, "it started while a child of the first was still ending"


def test_a_run_that_outlives_its_holder_keeps_its_device() -> None:
    first = start_one("until [ -e go ]; do sleep 0.05; done\n")
    holder = until(lambda: state_file(first, "leader").exists() and holder_pid(first), "the leader reports")
    os.kill(holder, signal.SIGKILL)
    until(lambda: not is_running(holder), "the holder is dead")
    (second,) = start(toy_plan("echo up", arm="next"))
    # Also without its supervisor, as long as any process of it lives.
    os.kill(pid_in(first, "supervisor"), signal.SIGKILL)
    claims = Path(os.environ["RLX_LEASES"], "devices", "cpu.0")
    assert first.run_id in (claims / str(os.getuid())).read_text(encoding="utf-8")
    until(lambda: see(second).queued_behind == 1 and see(second).holder_live, "the second waits")
    assert see(first).leader_live and log_of(second) == ""
    (first.run_dir / "go").touch()
    assert ended(first).state is RunState.FINISHED
    assert ended(second).state is RunState.FINISHED


def test_a_killed_waiter_is_lost_and_the_next_moves_up(wording: SnapshotAssertion) -> None:
    first, second, third = start(
        toy_plan("until [ -e go ]; do sleep 0.05; done", arm="a"), toy_plan("true", arm="b"), toy_plan("true", arm="c")
    )
    reaches(third, RunState.QUEUED)
    os.kill(holder_pid(second), signal.SIGKILL)
    assert reaches(second, RunState.LOST).detail == wording
    until(lambda: see(third).queued_behind == 1, "the third moves up")
    (first.run_dir / "go").touch()
    assert ended(third).state is RunState.FINISHED
    assert see(second).state is RunState.LOST


def test_tickets_do_not_pile_up() -> None:
    refs = start(*(toy_plan("true", arm=arm) for arm in "ab"))
    for ref in refs:
        ended(ref)
    assert list(Path(os.environ["RLX_LEASES"], "tickets").iterdir()) == []


def test_a_machine_without_the_devices_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = toy_plan("true")
    values = {name: getattr(plan, name) for name in LaunchPlan.__dataclass_fields__}
    for needs in ({"devices": 2}, {"device_kind": "npu", "devices": 8}):
        with pytest.raises(RlxError, match=r"needs [28] (cpu|npu) device"):
            start(LaunchPlan(**(values | needs)))
    assert list(Path(os.environ["RLX_ROOT"], "runs").glob("*")) == []


def test_waiting_is_done_by_the_kernel() -> None:
    first, *_, last = start(*(toy_plan(FOREVER, arm=arm) for arm in "abc"))
    until(lambda: see(first).started_epoch, "the first starts")
    status = Path(f"/proc/{holder_pid(last)}/status")

    def switches() -> list[str]:
        return [line for line in status.read_text(encoding="utf-8").splitlines() if "ctxt_switches" in line]

    def sleeps() -> bool:
        before = switches()
        # Longer than any polling interval that would be worth having.
        time.sleep(1.5)
        return switches() == before

    until(sleeps, "it sleeps")
