"""The rig by hand: `python -m tests.rig up [HOSTS] [--docker]` opens a shell on the client; its end is the rig's."""

from __future__ import annotations

import argparse
import os
import sys

from tests.rig.capabilities import RigUnavailable
from tests.rig.rig import Rig


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rig", description=__doc__)
    parser.add_argument("up", choices=["up"])
    parser.add_argument("hosts", type=int, nargs="?", default=3)
    parser.add_argument("--docker", action="store_true", help="with a Docker Engine and a container 'rl' on each host")
    parser.add_argument("--delay", type=float, default=0, metavar="MS", help="round trip to each host")
    options = parser.parse_args()
    try:
        with Rig(options.hosts) as rig:
            prepare(rig, options)
            return shell(rig)
    except RigUnavailable as reason:
        print(f"no rig: {reason}", file=sys.stderr)
        return 1


def prepare(rig: Rig, options: argparse.Namespace) -> None:
    for host in rig.hosts:
        if options.docker:
            host.docker.container("rl", {"/srv": "/srv"}, python=True)
        host.delay(options.delay)


def shell(rig: Rig) -> int:
    names = ", ".join(host.name for host in rig.hosts)
    print(
        f"This shell is on the client; try 'ssh {rig.hosts[0].name}'. Hosts: {names}. 'exit' ends them all.",
        file=sys.stderr,
    )
    return rig.client.popen(os.environ.get("SHELL", "/bin/sh"), env={"PS1": "rig$ "}).wait()


if __name__ == "__main__":
    sys.exit(main())
