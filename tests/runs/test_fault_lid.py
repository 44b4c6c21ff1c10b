"""The lid of the laptop is closed: every command of rlx is killed without warning, and nothing comes of it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from rlx.model import RunState
from tests.rig import Container, Host, Rig
from tests.runs.laptop import GO, NARROW, Laptop, go, heavy, log, patiently, run_folder, toy

CHATTER = 'i=0; while [ ! -e $RLX_RUN_DIR/go ]; do i=$((i + 1)); echo "line $i"; sleep 0.02; done; echo the end\n'


@pytest.fixture
def laptop(docker_rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(docker_rig.client, tmp_path / "home")


@pytest.fixture
def host(docker_rig: Rig, container: Container) -> Host:
    return docker_rig.host("h1")


def readers(host: Host) -> list[str]:
    """Command lines on the host that came over ssh and are no part of a run."""
    lines = [host.command_line(pid) for pid in host.processes()]
    return [line for line in lines if "rlx-logs" in line or "rlx-launch" in line or line.startswith("sh -s")]


WATCHING = (
    ("logs", "-f"),
    ("status", "-w"),
    ("wait",),
    ("logs", "--grep", "line"),
    ("status",),
    ("pull", "main"),
    ("doctor", "h1", "--container", "rl"),
)


def test_commands_that_watch_are_killed(host: Host, laptop: Laptop) -> None:
    ref = laptop.start(host, toy(laptop.site("h1", "rl"), CHATTER))
    for delay in (0.3, 0.7, 1.5, 3.0):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes = [laptop.start_rlx(*command, **quiet) for command in WATCHING]
        time.sleep(delay)
        for process in processes:
            process.kill()
            process.wait()
    # Their ssh goes when it finds nobody at its other end, and what it had started on the host goes with it.
    patiently(lambda: not readers(host), "nothing is left of the commands")
    assert laptop.see(ref).leader_live
    go(host, ref)
    assert laptop.ended(ref).exit_code == 0
    assert laptop.rlx("wait", "main").code == 0
    assert laptop.rlx("logs", "main").out == log(host, ref)
    assert laptop.rows("main")["main"]["state"] == "finished"


def test_a_stop_that_is_killed_half_way_is_completed_by_the_next(host: Host, laptop: Laptop) -> None:
    deaf = "trap '' TERM; echo up\nwhile :; do sleep 0.2; done\n"
    site = laptop.site("h1", "rl")
    ref = laptop.start(host, toy(site, deaf))
    (waiting,) = laptop.launch(toy(site, "exit 3\n", arm="waiting"))
    laptop.reaches(waiting, RunState.QUEUED)
    process = laptop.start_rlx("stop", "main", "--grace", "30", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    patiently((run_folder(host, ref) / "stop").exists, "the stop has begun")
    process.kill()
    process.wait()
    patiently(lambda: not readers(host), "nothing is left of the command")
    seen = laptop.see(ref)
    assert seen.leader_live or seen.state.is_terminal, seen
    said = laptop.rlx("stop", "main", "--grace", "1")
    assert (said.code, said.out.split()[0]) == (0, ref.run_id), said
    assert laptop.ended(ref).state is RunState.STOPPED
    assert laptop.ended(waiting).exit_code == 3


@pytest.mark.parametrize("sign", [".incoming-*", "toy-a-*/holder", "toy-b-*/attempts/1/state/started"])
def test_a_launch_that_is_killed_is_completed_by_the_same_launch(host: Host, laptop: Laptop, sign: str) -> None:
    runs = host.path("/srv/rlx-root/runs")
    script = "echo once >>$RLX_RUN_DIR/count\n" + ("" if "started" in sign else GO)
    plans = laptop.write_plans(*(heavy(toy(laptop.site("h1", "rl"), script, arm=arm)) for arm in "ab"))
    host.rate(NARROW)
    process = laptop.start_rlx("launch", "--plan", plans, "-f", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    patiently(lambda: list(runs.glob(sign)), "it comes that far")
    process.kill()
    process.wait()
    host.rate(0)
    patiently(lambda: not readers(host), "nothing is left of the command")
    patiently(lambda: not list(runs.glob(".incoming-*")), "what arrived in part is removed")
    there = {path.name for path in runs.glob("*")}
    assert len(there) in (0, 2)
    assert {ref.run_id for ref in laptop.runs()} == there
    said = laptop.rlx("launch", "--plan", plans, "--json")
    assert said.code == 0, said
    if "started" not in sign:
        document = json.loads(said.out)
        assert document["completed_earlier"] is True
        assert there <= {run["run_id"] for run in document["runs"]} == {ref.run_id for ref in laptop.runs()}
    for ref in laptop.runs()[::-1]:
        go(host, ref)
    for ref in laptop.runs():
        assert laptop.ended(ref).state is RunState.FINISHED
        assert (run_folder(host, ref) / "count").read_text(encoding="utf-8") == "once\n"
