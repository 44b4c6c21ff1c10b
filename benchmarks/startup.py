"""Start-up of the commands that people type most, as CPU time against `import typer`: python benchmarks/startup.py

Ratios, because they carry over from machine to machine; CPU time, because wall time measures the neighbours. The
commands take turns, so that a slow spell hits all of them alike. Exits with 1 where a budget is broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

BASELINE = (sys.executable, "-c", "import typer")
RLX = (sys.executable, "-m", "rlx")


@dataclass(frozen=True, slots=True)
class Budget:
    """A command, and how much CPU time it may take as a multiple of the baseline's."""

    name: str
    command: tuple[str, ...]
    ratio: float


BUDGETS = (
    Budget("python -c import rlx", (sys.executable, "-c", "import rlx"), 1.2),
    Budget("rlx --version", (*RLX, "--version"), 1.3),
    Budget("rlx --help", (*RLX, "--help"), 2.6),
    # Without runs: all that happens before the first question to a host.
    Budget("rlx status", (*RLX, "status"), 3.0),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="how often each command runs (default: 15)")
    rounds = parser.parse_args().rounds
    baseline, *seconds = measure([BASELINE, *(budget.command for budget in BUDGETS)], rounds)
    print(f"{'command':<24} {'CPU ms':>7} {'ratio':>6} {'budget':>7}")
    print(f"{'python -c import typer':<24} {1000 * baseline:>7.0f} {1:>6.2f}")
    ratios = [second / baseline for second in seconds]
    for budget, second, ratio in zip(BUDGETS, seconds, ratios, strict=True):
        verdict = "" if ratio <= budget.ratio else "  over budget"
        print(f"{budget.name:<24} {1000 * second:>7.0f} {ratio:>6.2f} {budget.ratio:>7.1f}{verdict}")
    return int(any(ratio > budget.ratio for budget, ratio in zip(BUDGETS, ratios, strict=True)))


def measure(commands: Sequence[Sequence[str]], rounds: int) -> list[float]:
    """Median CPU seconds of each command; the first round only warms the caches."""
    with tempfile.TemporaryDirectory() as home:
        places = {"RLX_HOME": f"{home}/home", "RLX_ROOT": f"{home}/root", "RLX_LEASES": f"{home}/leases"}
        environment = {**os.environ, **places}
        # The first round writes what Python compiles, as an installation does.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        samples = [[cpu_seconds(command, environment) for command in commands] for _ in range(rounds + 1)]
    return [median(column) for column in zip(*samples[1:], strict=True)]


def cpu_seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    """User and system time of one process, its children included once they were waited for."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {complaint.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
