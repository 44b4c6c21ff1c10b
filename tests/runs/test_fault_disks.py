"""Disks that are full, on a host and here: nothing is claimed that did not happen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.model import LaunchPlan, PlannedFile, RunState
from rlx.runs import RunRef
from tests.rig import Host, Rig
from tests.runs.laptop import GO, Laptop, go, log, patiently, run_folder, toy
from tests.runs.toys import FOREVER

# Only once it is told to, after the launch: what the launch itself puts aside makes room when it goes.
FILL = "while [ ! -e $RLX_RUN_DIR/begin ]; do sleep 0.1; done; cat /dev/zero >$RLX_RUN_DIR/fill 2>/dev/null\n"
STEP = "echo '(TaskRunner pid=7) step:1 - timing_s/step:0.5 - critic/score/mean:0.25'\n"


@pytest.fixture
def laptop(rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(rig.client, tmp_path / "home")


@pytest.fixture
def host(rig: Rig) -> Host:
    """Its /srv has room for 800 kB."""
    host = rig.host("h1")
    host.limit_disk("/srv", 800_000)
    return host


def used_percent(host: Host) -> int:
    """Of /srv; a file that goes again after the last write may leave a page or two."""
    return int(host.run("df", "--output=pcent", "/srv").stdout.split()[-1].rstrip(b"%"))


def fill(host: Host, ref: RunRef) -> None:
    (run_folder(host, ref) / "begin").touch()
    patiently(lambda: used_percent(host) >= 98, "the disk is full")


def plan_on_srv(laptop: Laptop, script: str, **options: Any) -> LaunchPlan:
    return toy(replace(laptop.site("h1"), root="/srv/rlx"), script, **options)


def test_a_full_disk_on_the_host(host: Host, laptop: Laptop) -> None:
    ref = laptop.start(host, plan_on_srv(laptop, f"{FILL}echo lost in the log\n{GO}exit 9\n"))
    (waiting,) = laptop.launch(plan_on_srv(laptop, "true\n", arm="waiting"))
    laptop.reaches(waiting, RunState.QUEUED)
    fill(host, ref)
    late = plan_on_srv(laptop, "true\n", arm="late")
    said = laptop.rlx("launch", "--plan", laptop.write_plans(late))
    assert (said.code, said.out, "RLX512" in said.err) == (5, "", True), said
    # It may also fill after that was asked.
    with pytest.raises(RlxError, match="No space left"):
        laptop.launch(late)
    folders = sorted(path.name for path in host.path("/srv/rlx/runs").iterdir())
    assert folders == sorted((ref.run_id, waiting.run_id)), "nothing of it is left"
    rows = laptop.rows("--all")
    assert {arm: row["state"] for arm, row in rows.items()} == {"main": "starting", "waiting": "queued"}
    # Even now it can be said that it is to go on, and how it ended; for the next one, too, there is room for that.
    host.run("sh", "-c", f": >{ref.remote_dir}/go")
    assert (laptop.ended(ref).state, laptop.see(ref).exit_code) == (RunState.FAILED, 9)
    seen = laptop.ended(waiting)
    assert seen.state in (RunState.FINISHED, RunState.FAILED), seen
    (run_folder(host, ref) / "fill").unlink()
    (again,) = laptop.launch(plan_on_srv(laptop, "exit 4\n", arm="again"))
    assert laptop.ended(again).exit_code == 4


def test_no_room_for_a_ticket(host: Host, laptop: Laptop, wording: SnapshotAssertion) -> None:
    """The folder of leases lies on another disk than the runs."""
    plan = toy(replace(laptop.site("h1"), leases="/srv/leases"), "exit 3\n")
    host.run("sh", "-c", "mkdir -p -m 1777 /srv/leases /srv/leases/tickets /srv/leases/devices")
    host.run("sh", "-c", "cat /dev/zero >/srv/fill 2>/dev/null; true")
    with pytest.raises(RlxError, match="/srv/leases") as caught:
        laptop.launch(plan)
    assert caught.value.message.splitlines()[-1] == wording
    assert not list(host.path("/srv/leases/tickets").iterdir())
    host.run("rm", "/srv/fill")
    (ref,) = laptop.launch(plan)
    assert laptop.ended(ref).exit_code == 3


def test_a_run_is_stopped_on_a_full_disk(host: Host, laptop: Laptop) -> None:
    ref = laptop.start(host, plan_on_srv(laptop, f"{FILL}{FOREVER}"))
    fill(host, ref)
    said = laptop.rlx("stop", "main", "--grace", "1")
    assert (said.code, said.out.split()[:2]) == (0, [ref.run_id, "stopped;"]), said
    assert laptop.see(ref).state is RunState.STOPPED


def test_a_full_disk_here(rig: Rig, tmp_path: Path) -> None:
    """The laptop's: a launch is refused before anything is sent, and what runs elsewhere is not touched by it."""
    host, home = rig.host("h1"), tmp_path / "home"
    home.mkdir()
    rig.client.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(home))
    laptop = Laptop(rig.client, home)
    ref = laptop.start(host, toy(laptop.site("h1"), STEP + GO))
    plans = laptop.write_plans(
        replace(toy(laptop.site("h1"), "true\n", arm="late"), files=(PlannedFile("launch.sh", "true\n", 0o700),))
    )
    rig.client.run("sh", "-c", f"cat /dev/zero >{home}/fill 2>/dev/null; true")
    for command in (("launch", "--plan", plans), ("status",), ("logs",), ("wait", "--timeout", "1s"), ("pull", "main")):
        said = laptop.rlx(*command)
        assert said.code != 3, said
        if said.code not in (0, 11):
            assert "full" in said.err or "No space" in said.err, said
        if command[0] == "launch":
            assert said.code == 1 and said.out == "", said
    runs = [path.name for path in run_folder(host, ref).parent.iterdir()]
    assert runs == [ref.run_id], "nothing was launched"
    rig.client.run("rm", f"{home}/fill")
    row = laptop.rows()["main"]
    assert (row["state"], row["steps_done"]) == ("running", 1)
    assert "step:1" in log(host, ref)
    go(host, ref)
    assert laptop.ended(ref).state is RunState.FINISHED
    assert laptop.rlx("launch", "--plan", plans).code == 0
