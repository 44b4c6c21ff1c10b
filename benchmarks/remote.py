"""rlx over SSH, against what people type by hand: python benchmarks/remote.py [--rounds N] [--gigabytes G]

Hosts are namespaces of this machine with a real sshd and Docker each (tests/rig; needs root); the network between them
is as slow as a row says. Ways to the same end take turns, so that a slow spell hits all of them alike; what counts is
their ratio, since client, hosts and containers share the cores of one machine. Exits with 1 where a budget is broken.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import remote_launch, remote_read
from benchmarks.rows import HEAD, Row
from tests.rig.machine import REPOSITORY
from tests.rig.rig import Rig

_MANY = 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each command runs (default: 5)")
    parser.add_argument("--gigabytes", type=float, default=2, help="size of the log that is searched (default: 2)")
    options = parser.parse_args()
    # Homes, hosts and roots of whoever runs this are not the client's.
    for name in [name for name in os.environ if name.startswith(("RLX_", "PYTHON"))]:
        del os.environ[name]
    # The client may not write here; an installed rlx is compiled, too.
    compileall.compile_dir(REPOSITORY / "rlx", quiet=1)
    print(HEAD, flush=True)
    all_kept = True
    for row in measure(options.rounds, int(options.gigabytes * 1e9)):
        print(row, flush=True)
        all_kept &= row.kept
    return int(not all_kept)


def measure(rounds: int, log_bytes: int) -> Iterator[Row]:
    with Rig(1) as rig:
        yield from remote_launch.launches(rig, rounds)
    with Rig(1) as rig:
        yield from remote_read.searches(rig, rounds, log_bytes)
        yield from remote_read.follows(rig, 20)
    with Rig(_MANY) as rig:
        yield from remote_read.statuses(rig, rounds, (1, 8, _MANY))


if __name__ == "__main__":
    sys.exit(main())
