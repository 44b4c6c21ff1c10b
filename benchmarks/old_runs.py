"""A host that has many old runs, over ssh: python benchmarks/old_runs.py [--runs 500] [--steps 50] [--rounds 3]

The host is an sshd on this machine. Its runs are over and lie there as rlx leaves them, one arm in four without noise.
What is measured: `rlx status --host` the first time, the second, again, and after one new run, and `rlx compare` of
four arms with all these runs. CPU seconds are those of rlx, not the host's. Exits with 1 where a budget is broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.comparing import Cost, run_rlx
from benchmarks.long_runs import write_run
from benchmarks.rows import HEAD, Row, memory
from tests.loopback import Loopback

_ARMS = 4


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="on the host (default: 500)")
    parser.add_argument("--steps", type=int, default=50, help="of each of them (default: 50)")
    parser.add_argument("--rounds", type=int, default=3, help="how often the warm ones are measured (default: 3)")
    options = parser.parse_args(arguments)
    kept = True
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for row in _rows(Path(scratch), options.runs, options.steps, options.rounds):
            print(row, flush=True)
            kept = kept and row.kept
    return int(not kept)


def _rows(folder: Path, runs: int, steps: int, rounds: int) -> Iterator[Row]:
    root = folder / "root"
    for number in range(runs):
        _write(root, number, steps)
    with Loopback(folder / "server") as host:
        rlx = partial(run_rlx, folder, more={"RLX_ROOT": folder / "local", "RLX_SSH_CONFIG": host.config})
        rlx("hosts", "add", "loop", "loop", "--root", str(root))
        status = partial(rlx, "status", "--host", "loop")
        name = f"{runs} old runs"
        yield _row(f"status --host, {name}, first time", [status()])
        # Whatever the first one left undone shows here, and in no median of many.
        yield _row(f"status --host, {name}, second time", [status()], 2)
        again = [status() for _ in range(rounds)]
        yield _row(f"status --host, {name}, again", again, 2)
        yield memory(f"status --host, {name}", max(cost.memory for cost in again))
        late = [_after_one_more(root, runs + number, steps, status) for number in range(rounds)]
        yield _row(f"status --host, {name} and a new one", late, 2)
        compare = partial(rlx, "compare", *(f"a{arm}" for arm in range(_ARMS)))
        yield _row(f"compare of {_ARMS} arms, {name}, first time", [compare()])
        yield _row(f"compare of {_ARMS} arms, {name}, again", [compare() for _ in range(rounds)])


def _write(root: Path, number: int, steps: int) -> None:
    arm, seed = number % _ARMS, number // _ARMS + 1
    write_run(root, f"a{arm}", arm, steps, seed=seed)


def _after_one_more(root: Path, number: int, steps: int, status: Callable[[], Cost]) -> Cost:
    _write(root, number, steps)
    return status()


def _row(what: str, costs: Sequence[Cost], budget: float | None = None) -> Row:
    cpu = median(cost.cpu for cost in costs)
    return Row(what, f"{cpu:.2f} s CPU", "–", median(cost.wall for cost in costs), "s", budget)


if __name__ == "__main__":
    sys.exit(main())
