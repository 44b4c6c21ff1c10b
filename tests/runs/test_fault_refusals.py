"""A host that does not let us in, and a container that cannot be used: exit codes, words and what helps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import RunState
from tests.conftest import REPOSITORY
from tests.rig import Container, Host, Rig
from tests.runs.laptop import Laptop, toy
from tests.runs.toys import FOREVER

RECIPE = str(REPOSITORY / "recipes" / "tiny-cpu.yaml")
LAUNCH = ("launch", RECIPE, "--arm", "baseline")


@pytest.fixture
def laptop(docker_rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(docker_rig.client, tmp_path / "home")


@pytest.fixture
def host(docker_rig: Rig, container: Container) -> Host:
    return docker_rig.host("h1")


def refused(laptop: Laptop, *argv: str) -> str:
    """What is said to a command that ends with exit code 4, as one that could not reach its host does."""
    said = laptop.rlx(*argv)
    assert (said.code, said.out) == (4, ""), said
    assert "fix: " in said.err
    return said.err


def test_a_changed_host_key(docker_rig: Rig, host: Host, laptop: Laptop) -> None:
    ref = laptop.start(host, toy(laptop.site("h1", "rl"), FOREVER))
    assert laptop.see(ref).state is RunState.STARTING
    plans = laptop.write_plans(toy(laptop.site("h1", "rl"), "true\n", arm="new"))
    host.change_host_key()
    host.break_connections()
    for command in (("launch", "--plan", plans), (*LAUNCH, "--host", "h1", "--container", "rl"), ("logs",)):
        text = refused(laptop, *command)
        assert "ssh-keygen -f" in text, text
    assert laptop.runs() == (ref,), "nothing was launched"
    said = laptop.rlx("status")
    assert (said.code, "unreachable" in said.out, "h1" in said.err) == (0, True, True)
    assert laptop.rows()["main"]["last_known"] == "starting"
    stop = laptop.rlx("stop", "main")
    assert stop.code == 4 and "NOT stopped" in stop.err
    fix = re.search(r"ssh-keygen [^;]*", refused(laptop, "logs"))
    assert fix is not None
    docker_rig.client.run("sh", "-c", fix.group())
    # The fix is to confirm the key by hand.
    assert refused(laptop, "logs").rstrip().endswith(": ssh h1")
    docker_rig.client.run("ssh", "-o", "StrictHostKeyChecking=accept-new", "h1", "true")
    assert laptop.see(ref).state is RunState.STARTING


def test_a_user_who_is_not_let_in(host: Host, laptop: Laptop) -> None:
    assert "nobody@h1" in refused(laptop, *LAUNCH, "--host", "nobody@h1", "--container", "rl")
    said = laptop.rlx("status", "--host", "nobody@h1")
    assert (said.code, "nobody@h1" in said.err) == (4, True), said
    ref = laptop.start(host, toy(laptop.site("h1", "rl"), FOREVER))
    host.configure_sshd("DenyUsers root")
    host.break_connections()
    seen = laptop.see(ref)
    assert seen.state is RunState.UNREACHABLE and "Permission denied" in seen.detail


def test_no_rights_to_use_docker(docker_rig: Rig, host: Host, laptop: Laptop, wording: SnapshotAssertion) -> None:
    host.add_user("ada", 2001)
    text = refused(laptop, *LAUNCH, "--host", "ada@h1", "--container", "rl")
    assert "usermod -aG docker ada" in text
    second = docker_rig.host("h2")
    second.remove_program("docker")
    assert refused(laptop, *LAUNCH, "--host", "h2", "--container", "rl") == wording


def test_a_run_of_somebody_without_docker_rights_any_more(
    host: Host, laptop: Laptop, wording: SnapshotAssertion
) -> None:
    """What they may not ask for, nobody can tell them; it is no end of the run."""
    host.add_user("bob", 2002, docker=True)
    host.run("sh", "-c", "mkdir /srv/bob && chown 2002:2002 /srv/bob")
    host.docker.container("bobs", {"/srv/bob": "/data"}, user="2002:2002")
    ref = laptop.start(host, toy(laptop.site("bob@h1", "bobs"), FOREVER))
    host.run("chmod", "600", "/run/docker.sock")
    seen = laptop.see(ref)
    assert (seen.state, seen.detail) == (RunState.STARTING, wording)
    stop = laptop.rlx("stop", "main")
    assert stop.code != 0 and "docker" in stop.err
    host.run("chmod", "660", "/run/docker.sock")
    assert laptop.see(ref).leader_live


def test_a_container_that_is_gone(host: Host, laptop: Laptop, container: Container, wording: SnapshotAssertion) -> None:
    assert refused(laptop, *LAUNCH, "--host", "h1", "--container", "rll") == wording
    plans = laptop.write_plans(toy(laptop.site("h1", "rl"), "true\n"))
    ref = laptop.start(host, toy(laptop.site("h1", "rl"), FOREVER, arm="before"))
    container.stop()
    assert "docker start rl" in refused(laptop, *LAUNCH, "--host", "h1", "--container", "rl")
    container.remove()
    assert refused(laptop, *LAUNCH, "--host", "h1", "--container", "rl") == wording
    seen = laptop.see(ref)
    assert (seen.state, seen.detail) == (RunState.LOST, wording)
    # A plan names the container by its id: another one of that name is not the same.
    host.docker.container("rl", {"/srv": "/data"})
    said = laptop.rlx("launch", "--plan", plans)
    assert (said.code, said.out) == (5, "") and said.err == wording
