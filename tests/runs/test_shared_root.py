"""Two hosts that share the folder of the runs, as a home on a file server is: each speaks of its own processes only."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.model import RunState, Site
from rlx.runs import RunRef
from tests.rig import Rig
from tests.runs.laptop import GO, Laptop, go, is_up, patiently, run_folder, toy
from tests.runs.toys import FOREVER

ROOT = "/srv/shared/rlx"


def shared_site(laptop: Laptop, host: str) -> Site:
    return replace(laptop.site(host), root=ROOT)


def through(ref: RunRef, laptop: Laptop, host: str) -> RunRef:
    """The same run, asked for at another host."""
    return replace(ref, place=shared_site(laptop, host).place)


def all_files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if "heartbeat" not in path.name}


def test_another_host_says_what_it_cannot_know_and_ends_nothing(
    rig: Rig, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    first, second = rig.host("h1"), rig.host("h2")
    laptop = Laptop(rig.client, tmp_path / "home")
    ref = laptop.start(first, toy(shared_site(laptop, "h1"), GO + "exit 3\n"))
    (waiting,) = laptop.launch(toy(shared_site(laptop, "h1"), FOREVER, arm="waiting"))
    laptop.reaches(waiting, RunState.QUEUED)
    files = all_files(second.path(ROOT))
    for run in (ref, waiting):
        elsewhere = through(run, laptop, "h2")
        seen = laptop.see(elsewhere)
        assert (seen.state, seen.detail) == (RunState.UNREACHABLE, wording(name="seen"))
        with pytest.raises(RlxError, match=r" h1, .* h2"):
            laptop.stop(elsewhere)
    assert all_files(second.path(ROOT)) == files
    assert laptop.see(ref).leader_live
    assert laptop.see(waiting).state is RunState.QUEUED
    # A launch through the other host leaves the runs of the first alone, and shares none of its devices.
    own = laptop.start(second, toy(shared_site(laptop, "h2"), FOREVER, arm="own"))
    assert laptop.see(through(own, laptop, "h1")).state is RunState.UNREACHABLE
    go(first, ref)
    ended = laptop.ended(ref)
    assert (ended.state, ended.exit_code) == (RunState.FAILED, 3)
    # What is on record, every host can read.
    assert laptop.see(through(ref, laptop, "h2")).exit_code == 3
    assert laptop.stop(own).ended
    assert laptop.stop(waiting).left == ()


def test_a_host_that_was_renamed_is_the_same_machine(rig: Rig, tmp_path: Path, wording: SnapshotAssertion) -> None:
    first = rig.host("h1")
    laptop = Laptop(rig.client, tmp_path / "home")
    site = shared_site(laptop, "h1")
    ref = laptop.start(first, toy(site, GO + "exit 3\n"))
    waiting, killed = (laptop.launch(toy(site, FOREVER, arm=arm))[0] for arm in ("waiting", "killed"))
    laptop.reaches(killed, RunState.QUEUED)
    first.run("hostname", "renamed")
    try:
        seen = [laptop.see(run) for run in (ref, waiting, killed)]
        assert [each.state for each in seen] == [RunState.STARTING, RunState.QUEUED, RunState.QUEUED]
        assert (seen[0].leader_live, seen[1].queued_behind, seen[2].queued_behind) == (True, 1, 2)
        # Its devices are still taken, and what it has no process of any more is over.
        later = laptop.launch(toy(site, FOREVER, arm="later"))[0]
        assert laptop.reaches(later, RunState.QUEUED).queued_behind == 3
        first.run("kill", "-9", (run_folder(first, killed) / "holder").read_text(encoding="utf-8").split()[0])
        assert laptop.reaches(killed, RunState.LOST).detail == wording
        assert laptop.stop(waiting).ended
        # Another process table has nothing to say of it, although it is of the same boot.
        assert laptop.see(through(later, laptop, "h2")).state is RunState.UNREACHABLE
        go(first, ref)
        assert laptop.ended(ref).exit_code == 3
        assert laptop.stop(later).left == ()
    finally:
        first.run("hostname", "h1")


def test_somebody_else_lists_the_runs_through_the_other_host(
    rig: Rig, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    launcher, colleague = Laptop(rig.client, tmp_path / "home"), Laptop(rig.client, tmp_path / "colleague")
    ref = launcher.start(rig.host("h1"), toy(shared_site(launcher, "h1"), FOREVER))
    for host in ("h2", "h1"):
        added = colleague.rlx("hosts", "add", host, host, "--root", ROOT)
        assert added.code == 0, added
    rows = colleague.rows("--host", "h2")
    assert (rows["main"]["state"], rows["main"]["detail"]) == ("unreachable", wording)
    refused = colleague.rlx("stop", ref.run_id)
    assert refused.code != 0 and re.search(r" h1, .* h2$", refused.err, re.MULTILINE), refused
    assert launcher.see(ref).leader_live
    assert launcher.stop(ref).ended


def test_a_run_in_a_container_of_the_other_host(docker_rig: Rig, tmp_path: Path) -> None:
    host = docker_rig.host("h1")
    host.docker.container("rl", {"/srv/shared": "/data"}, python=True)
    laptop = Laptop(docker_rig.client, tmp_path / "home")
    plan = toy(laptop.site("h1", "rl"), FOREVER)
    (ref,) = laptop.launch(plan)
    assert ref.root.startswith("/srv/shared")
    patiently(lambda: is_up(host, ref), "it runs")
    elsewhere = through(ref, laptop, "h2")
    assert laptop.see(elsewhere).state is RunState.UNREACHABLE
    with pytest.raises(RlxError, match=r" h1, .* h2"):
        laptop.stop(elsewhere)
    assert laptop.see(ref).leader_live
    assert laptop.stop(ref).ended
