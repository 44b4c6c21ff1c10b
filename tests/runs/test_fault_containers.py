"""What happens to a host and its engine while a run is in a container there, and what a laptop then says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import RunState
from tests.rig import Container, Host, Rig
from tests.runs.laptop import GO, Laptop, go, is_up, log, patiently, run_folder, toy
from tests.runs.toys import FOREVER


@pytest.fixture
def laptop(docker_rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(docker_rig.client, tmp_path / "home")


@pytest.fixture
def host(docker_rig: Rig, container: Container) -> Host:
    return docker_rig.host("h1")


def test_a_container_that_is_stopped_and_started_again(
    host: Host, laptop: Laptop, container: Container, wording: SnapshotAssertion
) -> None:
    site = laptop.site("h1", "rl")
    ref = laptop.start(host, toy(site, FOREVER))
    container.stop()
    # Its holder still has to see it.
    laptop.reaches(ref, RunState.LOST)
    said = laptop.rows()["main"]
    assert (said["state"], said["detail"]) == ("lost", wording)
    assert "lost" in laptop.rlx("status").out
    wait = laptop.rlx("wait")
    assert wait.code == 10, wait
    assert "up" in laptop.rlx("logs").out, "the log lies on the host"
    container.start()
    seen = laptop.see(ref)
    assert (seen.state, seen.detail) == (RunState.LOST, wording)
    assert laptop.ended(laptop.launch(toy(site, "exit 3\n"))[0]).exit_code == 3


def test_an_engine_that_is_down_says_nothing_about_a_run(
    host: Host, laptop: Laptop, wording: SnapshotAssertion
) -> None:
    ref = laptop.start(host, toy(laptop.site("h1", "rl"), GO + "exit 5\n"))
    (waiting,) = laptop.launch(toy(laptop.site("h1", "rl"), "exit 6\n", arm="waiting"))
    laptop.reaches(waiting, RunState.QUEUED)
    host.docker.kill()
    rows = laptop.rows()
    assert (rows["main"]["state"], rows["main"]["detail"]) == ("starting", wording)
    assert rows["waiting"]["state"] == "queued", "nobody can say that the devices are free"
    stop = laptop.rlx("stop", "main", "--grace", "1")
    assert stop.code != 0 and "docker" in stop.err
    # It runs on meanwhile, and its end is recorded by itself.
    go(host, ref)
    assert laptop.reaches(ref, RunState.FAILED).exit_code == 5
    assert laptop.rows("main")["main"]["state"] == "failed", "the stop was refused, so it is no reason for this end"
    host.docker.start()
    # A new engine stops the containers of one that crashed; what waits is told so.
    seen = laptop.ended(waiting)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 125)
    assert log(host, waiting).startswith("rlx: ")


def test_an_engine_that_is_stopped_takes_its_containers_along(
    host: Host, laptop: Laptop, wording: SnapshotAssertion
) -> None:
    ref = laptop.start(host, toy(laptop.site("h1", "rl"), FOREVER))
    host.docker.stop()
    seen = laptop.see(ref)
    assert (seen.state, seen.detail) == (RunState.STARTING, wording)
    host.docker.start()
    assert laptop.reaches(ref, RunState.LOST).detail == wording


def test_a_rebooted_host(
    docker_rig: Rig, host: Host, laptop: Laptop, container: Container, wording: SnapshotAssertion
) -> None:
    site = laptop.site("h1", "rl")
    ref = laptop.start(host, toy(site, FOREVER, arm="inside"))
    (waiting,) = laptop.launch(toy(site, FOREVER, arm="waiting"))
    laptop.reaches(waiting, RunState.QUEUED)
    second = docker_rig.host("h2")
    (done,) = laptop.launch(toy(laptop.site("h2"), "exit 3\n", arm="done"))
    assert laptop.ended(done).exit_code == 3
    bare = laptop.start(second, toy(laptop.site("h2"), FOREVER, arm="bare"))
    for machine in (host, second):
        machine.reboot()
    rows = laptop.rows("--all")
    assert rows["inside"]["state"] == "starting", "docker is not up yet, so nobody knows"
    assert (rows["bare"]["state"], rows["waiting"]["state"], rows["done"]["exit_code"]) == ("lost", "lost", 3)
    assert {arm: rows[arm]["detail"] for arm in ("inside", "bare", "waiting")} == wording
    assert host.docker
    assert laptop.reaches(ref, RunState.LOST).detail == wording
    container.start()
    # The devices of the dead are free again.
    (again,) = laptop.launch(toy(site, "exit 4\n", arm="again"))
    assert laptop.ended(again).exit_code == 4
    (again,) = laptop.launch(toy(laptop.site("h2"), "exit 4\n", arm="again"))
    assert laptop.ended(again).exit_code == 4
    assert laptop.rlx("stop", "bare").code == 0
    assert laptop.see(bare).state is RunState.LOST


def test_tmux_docker_command_holder_and_supervisor_are_killed_one_after_the_other(
    host: Host, laptop: Laptop, container: Container, wording: SnapshotAssertion
) -> None:
    site = laptop.site("h1", "rl")
    ref = laptop.start(host, toy(site, GO + "exit 7\n"))
    (waiting,) = laptop.launch(toy(site, "exit 8\n", arm="waiting"))
    laptop.reaches(waiting, RunState.QUEUED)

    def check(what: str) -> None:
        seen = laptop.see(ref)
        assert (seen.state, seen.leader_live) == (RunState.STARTING, True), what
        assert laptop.see(waiting).state is RunState.QUEUED, what

    patiently(lambda: laptop.see(ref).supervisor_live, "its supervisor has reported")
    assert host.kill("tmux: server"), "tmux was there"
    check("tmux")
    assert host.kill("docker")
    check("the docker command")
    holder = (run_folder(host, ref) / "holder").read_text(encoding="utf-8").split()[0]
    host.run("kill", "-9", holder)
    patiently(lambda: not laptop.see(ref).holder_live, "the holder is gone")
    check("the holder")
    supervisor = run_folder(host, ref) / "attempts/1/state/supervisor"
    container.run("kill", "-9", supervisor.read_text(encoding="utf-8").split()[0])
    patiently(lambda: not laptop.see(ref).supervisor_live, "the supervisor is gone")
    check("the supervisor")
    assert laptop.rows()["main"]["detail"] == wording
    go(host, ref)
    assert laptop.ended(ref).exit_code == 7
    assert laptop.ended(waiting).exit_code == 8
    assert is_up(host, waiting)
