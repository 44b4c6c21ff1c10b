"""Docker Engines of the rig's hosts, and what runs in their containers."""

from __future__ import annotations

import sys

import pytest

from tests.rig import Container, Host, Rig


@pytest.fixture
def engine_host(docker_rig: Rig) -> Host:
    return docker_rig.hosts[0]


def test_each_host_has_a_docker_of_its_own(docker_rig: Rig, engine_host: Host) -> None:
    engine_host.docker.container("rl")
    listed = {
        name: docker_rig.client.run("ssh", name, "docker ps --format '{{.Names}}'").stdout for name in ("h1", "h2")
    }
    assert listed == {"h1": b"rl\n", "h2": b""}


def test_a_container_sees_its_mounts_devices_and_python(engine_host: Host) -> None:
    engine_host.add_devices("davinci0", "davinci_manager")
    engine_host.play_npu_smi("a3-ascend910-busy", {"118204": "77"})
    rl = engine_host.docker.container("rl", {"/srv": "/data"}, devices=["/dev/davinci0"], python=True)
    rl.run("sh", "-c", "echo from inside >/data/file; test -c /dev/davinci0; test ! -e /dev/davinci_manager")
    assert engine_host.path("/srv/file").read_text(encoding="utf-8") == "from inside\n"
    assert rl.run("python", "-c", "import yaml, sys; print(sys.prefix)").stdout.decode().strip() == sys.prefix
    shown = rl.run("npu-smi", "info").stdout.decode()
    assert "| 77            | VLLMEngineCor" in shown
    assert rl.run("cat", "/tmp/npu-smi.calls").stdout == b"info\n"


def test_a_container_has_loopback_and_nothing_else(container: Container) -> None:
    assert container.run("bash", "-c", "sed 1,2d /proc/net/dev | cut -d: -f1").stdout.split() == [b"lo"]
    listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    container.run("python", "-c", listen)


def test_containers_end_with_a_stop_and_run_on_under_a_dead_engine(engine_host: Host) -> None:
    rl = engine_host.docker.container("rl")
    rl.restart()
    rl.run("true")
    engine_host.docker.kill()
    assert "sleep" in engine_host.processes().values()
    assert b"Cannot connect" in rl.run("true", check=False).stderr
    engine_host.docker.start()
    rl.start()
    rl.stop()
    assert b"is not running" in rl.run("true", check=False).stderr
    rl.remove()
    assert engine_host.run("docker", "ps", "--all", "--quiet").stdout == b""


def test_docker_refuses_who_is_not_in_its_group(docker_rig: Rig, engine_host: Host) -> None:
    engine_host.add_user("ada", 2001)
    engine_host.add_user("bob", 2002, docker=True)
    refused = docker_rig.client.run("ssh", "ada@h1", "docker ps", check=False)
    assert (refused.returncode, b"permission denied" in refused.stderr) == (1, True)
    docker_rig.client.run("ssh", "bob@h1", "docker ps")


def test_a_reboot_ends_the_engine_and_its_containers(docker_rig: Rig, engine_host: Host) -> None:
    engine_host.docker.container("rl")
    engine_host.reboot()
    assert set(engine_host.processes().values()) == {"bash", "sshd"}
    assert docker_rig.client.run("ssh", "h1", "docker ps", check=False).returncode == 1
    assert engine_host.docker
    docker_rig.client.run("ssh", "h1", "docker start rl && docker exec rl true")
