"""`rlx validate` of a hundred recipes in one call, and `rlx plan` of one: seconds of a warm process.

Budgets: 1 s and 0.3 s. Usage: python benchmarks/validate.py [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "starter.yaml"
HUNDRED = 100


def seconds(*arguments: str) -> tuple[float, float]:
    """Of one call, by the clock and by the processor; the latter is what a busy machine leaves comparable."""
    before, clock = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "rlx", *arguments], check=True, stdout=subprocess.DEVNULL)
    after, elapsed = os.times(), time.perf_counter() - clock
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return elapsed, spent


def report(name: str, rounds: int, *arguments: str) -> None:
    seconds(*arguments)  # warms the file cache and the compiled modules
    measured = [seconds(*arguments) for _ in range(rounds)]
    elapsed, spent = (statistics.median(column) for column in zip(*measured, strict=True))
    print(f"{name:<24} {elapsed:6.2f} s by the clock, {spent:6.2f} s of processor")


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RLX_HOME"] = folder
        copies = [Path(folder, f"recipe{number}.yaml") for number in range(HUNDRED)]
        for copy in copies:
            copy.write_text(RECIPE.read_text(encoding="utf-8"), encoding="utf-8")
        report("validate 100 recipes", rounds, "validate", *map(str, copies))
        report("validate one", rounds, "validate", str(copies[0]))
        report("plan one", rounds, "plan", str(copies[0]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
