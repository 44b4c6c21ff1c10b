"""What a launch on several hosts asks them before anything starts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

from tests.rig import Rig


def test_a_container_that_no_other_node_can_reach_is_refused(docker_rig: Rig) -> None:
    client = docker_rig.client
    for host in docker_rig.hosts:
        host.docker.container("rl", {"/srv": "/data"}, python=True)
        client.rlx("hosts", "add", host.name, host.name, "--container", "rl", "--address", host.address)
    words = ("launch", "tiny-cpu", "--arm", "baseline", "--set", "layout.nodes=2", "--host", "h1,h2")
    done = client.rlx(*words, check=False)
    assert done.returncode == 5, done.stderr.decode()
    assert "RLX506 h1: the container rl has a network of its own (none)" in done.stderr.decode()
    assert not list(docker_rig.host("h2").path("/srv").glob("*/runs/*"))
    # One node needs nobody to reach it.
    assert "RLX506" not in client.rlx("launch", "tiny-cpu", "--host", "h1", "--dry-run", check=False).stdout.decode()


def test_a_person_at_a_terminal_is_told_what_takes_so_long(new_rig: Callable[[int], Rig]) -> None:
    rig = new_rig(1)
    rig.client.rlx("hosts", "add", "h1", "h1")
    rig.host("h1").cut()
    words = ("launch", "tiny-cpu", "--host", "h1", "--arm", "baseline")
    shown = rig.client.run("script", "-qc", shlex.join([sys.executable, "-m", "rlx", *words]), "/dev/null", check=False)
    assert "asking h1 …" in shown.stdout.decode()
    # A script reads what it asked for, and no progress.
    assert "asking" not in rig.client.rlx(*words, check=False).stderr.decode()
