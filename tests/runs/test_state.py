"""derive_state as a table: what the host sees, and what that means."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import LOCAL, RunState
from rlx.runs import RunFacts, derive_state, supervisor
from rlx.runs.status.host_report import Exit, Life, RayJobs, parse_report
from tests.devices import put_program
from tests.runs.toys import ended, see, start, state_file, toy_plan

FINISHED = RunState.FINISHED
SHIPPED = RunFacts(
    run_id="toy",
    now=1000.0,
    attempt=1,
    holder=Life.NONE,
    supervisor=Life.NONE,
    leader=Life.NONE,
    members=0,
    ahead=0,
    created=995.0,
    stop_asked=False,
    started=None,
    log_bytes=0,
    log_time=None,
    metrics_bytes=0,
    exit=None,
)
WAITING = replace(SHIPPED, holder=Life.LIVE, created=0.0)
STARTED = replace(WAITING, started=900.0, supervisor=Life.LIVE, leader=Life.LIVE, members=3)
GONE = replace(STARTED, holder=Life.DEAD, supervisor=Life.DEAD, leader=Life.DEAD, members=0)
JOB = RayJobs(None, "RUNNING", None, "j1", "http://127.0.0.1:8265")


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (SHIPPED, RunState.STARTING),
        (replace(SHIPPED, created=0.0), RunState.LOST),
        (replace(SHIPPED, stop_asked=True), RunState.STOPPED),
        (WAITING, RunState.QUEUED),
        (replace(WAITING, holder=Life.DEAD), RunState.LOST),
        (replace(WAITING, holder=Life.DEAD, stop_asked=True), RunState.STOPPED),
        (replace(WAITING, started=999.0), RunState.STARTING),
        (replace(WAITING, started=900.0), RunState.STARTING),
        (replace(WAITING, started=900.0, holder=Life.DEAD), RunState.LOST),
        (STARTED, RunState.STARTING),
        (replace(STARTED, metrics_bytes=9), RunState.RUNNING),
        (replace(STARTED, metrics_bytes=9, holder=Life.DEAD, supervisor=Life.DEAD), RunState.RUNNING),
        (replace(GONE, metrics_bytes=9, members=1), RunState.RUNNING),
        (GONE, RunState.LOST),
        (replace(GONE, stop_asked=True), RunState.LOST),
        (replace(GONE, exit=Exit(0, "leader", 990.0)), FINISHED),
        (replace(GONE, exit=Exit(0, "leader", 990.0), stop_asked=True), FINISHED),
        (replace(GONE, exit=Exit(1, "leader", 990.0)), RunState.FAILED),
        (replace(GONE, exit=Exit(137, "supervisor", 990.0)), RunState.FAILED),
        (replace(GONE, exit=Exit(143, "stop", 990.0), stop_asked=True), RunState.STOPPED),
        (replace(STARTED, exit=Exit(3, "leader", 990.0)), RunState.FAILED),
        (replace(STARTED, ray=JOB), RunState.RUNNING),
        (replace(STARTED, ray=replace(JOB, status="PENDING")), RunState.STARTING),
        (replace(STARTED, ray=replace(JOB, silent=5.0)), RunState.RUNNING),
        (replace(STARTED, ray=replace(JOB, code=0, status="SUCCEEDED")), RunState.STARTING),
        (replace(GONE, ray=JOB), RunState.RUNNING),
        (replace(GONE, ray=replace(JOB, status="PENDING")), RunState.STARTING),
        (replace(GONE, ray=replace(JOB, silent=5.0)), RunState.UNREACHABLE),
        (replace(GONE, ray=replace(JOB, code=0, status="SUCCEEDED")), RunState.FINISHED),
        (replace(GONE, ray=replace(JOB, code=3, status="FAILED")), RunState.FAILED),
        (replace(GONE, ray=replace(JOB, code=143, status="STOPPED")), RunState.FAILED),
        (replace(GONE, ray=replace(JOB, code=143, status="STOPPED"), stop_asked=True), RunState.STOPPED),
        (replace(GONE, ray=replace(JOB, code=1, status="GONE")), RunState.LOST),
        (replace(GONE, node="n3"), RunState.UNREACHABLE),
        (replace(GONE, node="n3", members=1), RunState.STARTING),
        (replace(GONE, node="n3", exit=Exit(0, "leader", 990.0)), RunState.FINISHED),
    ],
)
def test_what_the_facts_mean(facts: RunFacts, state: RunState) -> None:
    assert derive_state(facts) is state


def test_a_torn_file_is_no_crash() -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    for name, expected in (("leader", FINISHED), ("supervisor", FINISHED), ("exit", RunState.LOST)):
        for content in ("", "\n", "7", "garbage in here", "1 2 3 4 5 6 7", "-1 x y", "\0\0\0", "0 leader"):
            state_file(ref, name).write_text(content, encoding="utf-8")
            seen = see(ref)
            assert (seen.state, seen.members, seen.leader_live) == (expected, 0, False), (name, content)


def test_a_process_of_another_boot_or_with_a_reused_pid_is_dead() -> None:
    (ref,) = start(toy_plan("true"))
    ended(ref)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    tick = Path("/proc/1/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    idents = {f"1 {tick} {boot}": True, f"1 {int(tick) + 1} {boot}": False, f"1 {tick} {'0' * 36}": False}
    node = Path("/proc/sys/kernel/hostname").read_text(encoding="utf-8").strip()
    idents |= {f"1 {tick} {boot} {node}": True, f"1 {tick} {boot} {node}-b": False}
    # An equal boot id and process table is the same machine, whatever it is called.
    processes = str(Path("/proc/self/ns/pid").readlink())
    idents |= {f"1 {tick} {boot} {node}-b {processes}": True, f"1 {tick} {boot} {node}-b pid:[1]": False}
    idents |= {f"1 {tick} {'0' * 36} {node} {processes}": False}
    idents |= {f"1 {int(tick) + 1} {boot} {node}-b {processes}": False}
    for ident, live in idents.items():
        state_file(ref, "leader").write_text(ident + "\n", encoding="utf-8")
        assert see(ref).leader_live is live


def test_names_that_are_no_runs_do_not_disturb_the_report(tmp_path: Path) -> None:
    runs = tmp_path / "root" / "runs"
    for name in ("plain", "with space", "line\nbreak", "$(reboot)", "-n", ".incoming-x", "quote'", "ünï"):
        (runs / name).mkdir(parents=True)
        (runs / name / "manifest.json").write_text("{}", encoding="utf-8")
    (runs / "no-manifest").mkdir()
    facts = parse_report(supervisor.call(LOCAL, "report", str(tmp_path / "root")))
    assert list(facts) == ["plain"]
    assert parse_report(supervisor.call(LOCAL, "report", str(tmp_path / "nowhere"))) == {}


def test_what_is_said_of_ray_jobs_is_read_or_left_out() -> None:
    run = "file /proc/self/ 1 1000\nrun toy attempt=1 holder=live supervisor=live leader=live ahead=0\n"
    said = {
        "submitted toy open - RUNNING - j1 http://h:1": RayJobs(None, "RUNNING", None, "j1", "http://h:1"),
        "submitted toy over 3 FAILED 990 j1 http://h:1": RayJobs(3, "FAILED", 990, "j1", "http://h:1"),
    }
    torn = (
        "submitted toy",
        "submitted",
        "submitted toy open -",
        "submitted toy over x FAILED - j1 http://h:1",
        "submitted toy open - \x1b[2J",
    )
    for line, jobs in [*said.items(), *((line, None) for line in torn)]:
        assert parse_report(f"{run}{line}\n")["toy"].ray == jobs, line


@pytest.mark.parametrize("code", [126, 137])
def test_a_host_that_cannot_start_programs_says_nothing_about_runs(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    """Memory may not suffice for another program. A shell says 126 of one that cannot start, 137 of a killed one."""
    (ref,) = start(toy_plan("true"))
    ended(ref)
    put_program(tmp_path, "stat", f"exit {code}")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    seen = see(ref)
    assert (seen.state, re.sub(r"\d\d:\d\d:\d\d", "<time>", seen.detail)) == (RunState.UNREACHABLE, wording)
