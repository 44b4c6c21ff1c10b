"""Launching into a container, against scp, docker cp, tmux and grep, each by an ssh of its own."""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Iterator

from benchmarks.rows import Row, in_turns, ratio
from tests.cli.support import tiny_cpu_files
from tests.rig.client import Client
from tests.rig.host import Host
from tests.rig.machine import REPOSITORY
from tests.rig.rig import Rig

ROUND_TRIPS_MS = (0, 20, 100)
BUDGETS = {"cold": 1 / 3, "warm": 1 / 10}

# Stands for the Python of the recipe: answers questions that come on stdin or as a text, and trains in no time.
_PYTHON = f'#!/bin/sh\ncase $1 in -|-c) exec {sys.executable} "$@" ;; esac\n'

_SCRIPT = "echo 'step:1 - val-core/x/acc/mean@1:0.5'\n"
_BY_HAND = """
scp -q /root/launch.sh h1:/tmp/launch.sh &&
ssh h1 docker cp /tmp/launch.sh rl:/srv/launch.sh &&
ssh h1 'tmux new-session -d -s run-{n} "docker exec rl bash -c \\"bash /srv/launch.sh >/srv/log 2>&1\\""' &&
ssh h1 'docker exec rl sh -c "grep val-core /srv/log | tail -1"'
"""

# What a laptop that was closed for a while has: no open connection.
_CLOSE = 'for socket in /tmp/rlx-ssh-0/*; do [ ! -S "$socket" ] || ssh -O exit -o ControlPath="$socket" h1; done'


def launches(rig: Rig, rounds: int) -> Iterator[Row]:
    """Everything that `rlx launch RECIPE` does, its looks at container and back-end before the start included."""
    client, host = rig.client, rig.host("h1")
    _prepare(client, host)
    numbers = itertools.count()
    launch = ("-q", "launch", "/root/recipe.yaml", "--host", "h1", "--arm", "baseline")
    ways = {
        "by hand": lambda: client.run("sh", "-c", _BY_HAND.format(n=next(numbers))),
        "cold": lambda: client.rlx(*launch),
        "warm": lambda: client.rlx(*launch),
    }
    before = {"cold": lambda: client.run("sh", "-c", _CLOSE)}
    for delay in ROUND_TRIPS_MS:
        host.delay(delay)
        seconds = in_turns(ways, rounds, before)
        for how, budget in BUDGETS.items():
            what = f"launch, {delay} ms round trip, {how}"
            yield ratio(what, seconds[how], "by hand", seconds["by hand"], budget if delay == 100 else None)


def _prepare(client: Client, host: Host) -> None:
    host.docker.container("rl", {"/srv": "/srv"}, python=True)
    host.path("/srv/python").write_text(_PYTHON, encoding="utf-8")
    host.path("/srv/python").chmod(0o755)
    recipe = (
        (REPOSITORY / "recipes/tiny-cpu.yaml")
        .read_text(encoding="utf-8")
        .replace("kind: verl,", "kind: verl, python: /srv/python,")
    )
    tiny_cpu_files(host.path("/srv"))
    client.path("/root/recipe.yaml").write_text(recipe.replace("~/.cache", "/srv/.cache"), encoding="utf-8")
    shutil.copytree(REPOSITORY / "recipes/tiny-cpu", client.path("/root/tiny-cpu"))
    client.path("/root/launch.sh").write_text(_SCRIPT, encoding="utf-8")
    client.rlx("hosts", "add", "h1", "root@h1", "--container", "rl", "--root", "/srv/rlx")
