"""What a launch on several hosts asks them before anything starts."""

from __future__ import annotations

from tests.rig import Rig


def test_a_container_that_no_other_node_can_reach_is_refused(docker_rig: Rig) -> None:
    client = docker_rig.client
    for host in docker_rig.hosts:
        host.docker.container("rl", {"/srv": "/data"}, python=True)
        client.rlx("hosts", "add", host.name, host.name, "--container", "rl", "--address", host.address)
    words = ("launch", "tiny-cpu", "--arm", "baseline", "--set", "layout.nodes=2", "--host", "h1,h2")
    done = client.rlx(*words, check=False)
    assert done.returncode == 5, done.stderr.decode()
    assert "RLX506 h1: " in done.stderr.decode()
    assert not list(docker_rig.host("h2").path("/srv").glob("*/runs/*"))
    # One node needs nobody to reach it.
    assert "RLX506" not in client.rlx("launch", "tiny-cpu", "--host", "h1", "--dry-run", check=False).stdout.decode()
