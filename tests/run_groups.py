"""Run groups of tests one after the other, each as one pytest, and print a line for each at the end.

    python -m tests.run_groups [GROUP …] [--seed N] [-m MARKS] [--until SECONDS] [--times N --beside N]

Without names, all groups of tests/groups.toml but `contracts`, whose tests are in the others too. Exit code 1 if a
group failed.

--until   only groups that passed ten runs on a busy machine (`stable` in tests/groups.toml), in the order of that file;
          a group is begun only if it would end in time, and the line of one that is left out says why
--times, --beside   how that was found: run each group so many times beside so many processes that only compute
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.sorting import CONTRACTS, GROUPS, QUICK

_SLOWEST = 25
_COMPUTE = "while True: pass"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--seed", help="that of an earlier run, as it printed it: the same order again")
    parser.add_argument("-m", default="", metavar="MARKS", help="only tests with these marks, as pytest reads them")
    parser.add_argument("--until", type=float, metavar="SECONDS")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--beside", type=int, default=0)
    options = parser.parse_args()
    if unknown := sorted(set(options.groups) - set(GROUPS)):
        parser.error(f"no group is called {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    began = time.monotonic()
    lines = []
    for group in options.groups or [name for name in GROUPS if name != CONTRACTS]:
        left_s = None if options.until is None else options.until - (time.monotonic() - began)
        if why := _why_not(group, left_s):
            lines.append(f"{group:12} not run: {why}")
            continue
        with _computing(options.beside):
            lines += [_run(group, options.m, options.seed) for _ in range(options.times)]
    print("", *lines, sep="\n")
    return int(any(" failed" in line for line in lines))


def _why_not(group: str, left_s: float | None) -> str:
    """Say why a group is left out where time is limited; empty if it runs."""
    if left_s is None:
        return ""
    if group == QUICK:
        return "a part of make test"
    row = GROUPS[group]
    if "stable" not in row:
        return "no record of ten runs on a busy machine"
    return "" if row["seconds"] <= left_s else f"takes {row['seconds']} s, and {left_s:.0f} s are left"


def _run(group: str, marks: str, seed: str | None) -> str:
    """Run the tests of one group and return the line about it. What shares a set-up stays in one process."""
    start = time.monotonic()
    workers = str(GROUPS[group]["workers"])
    order = [f"--randomly-seed={seed}"] if seed else []
    spread = ["--dist", "loadscope", "--no-loadscope-reorder", "-n", workers]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--group",
        group,
        "-m",
        marks,
        f"--durations={_SLOWEST}",
        *spread,
        *order,
    ]
    code = subprocess.run(command, check=False).returncode
    result = f"failed (exit code {code})" if code else "passed"
    return f"{group:12} {result} in {time.monotonic() - start:.0f} s, load {os.getloadavg()[0]:.0f}"


@contextmanager
def _computing(count: int) -> Iterator[None]:
    """Keep so many processes computing meanwhile."""
    busy = [subprocess.Popen([sys.executable, "-c", _COMPUTE]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
