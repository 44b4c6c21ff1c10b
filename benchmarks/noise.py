"""A weight sync with noise against the same sync without: python benchmarks/noise.py

What is real in the sync, and what stands in: benchmarks/noisy_sync.py. CPU time, because wall time measures the
neighbours; in turns, and each ratio is of two neighbours in time. Needs verl==0.9.1, 7 GB of memory and 0.5 GB of
/dev/shm. Exits with 1 where the budget is broken.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "rlx/payload"), str(REPOSITORY / "rlx/backends/verl/payload")]

from benchmarks.noisy_sync import RANK, SHAPE, Rollout, adapters_of, model_of, prepare  # noqa: E402
from benchmarks.rows import HEAD, Row  # noqa: E402

BUDGET = 1.05


def measure(rollout: Rollout, rounds: int) -> list[tuple[float, float]]:
    """CPU seconds with and without noise of each round; every sync finds noisy weights. The first round warms up."""
    pairs = []
    for number in range(rounds + 1):
        ways = (rollout.with_noise, rollout.without)[:: 1 if number % 2 else -1]
        seconds = {way.__name__: cpu_seconds(rollout, way) for way in ways}
        pairs.append((seconds["with_noise"], seconds["without"]))
    return pairs[1:]


def cpu_seconds(rollout: Rollout, sync: Callable[[], None]) -> float:
    rollout.disturb()
    began = time.process_time()
    sync()
    return time.process_time() - began


def row_of(what: str, pairs: list[tuple[float, float]]) -> tuple[Row, str]:
    ratios = [noisy / clean for noisy, clean in pairs]
    noisy, clean = (median(column) for column in zip(*pairs, strict=True))
    row = Row(what, f"{noisy:.3f} s", f"{clean:.3f} s without", median(ratios), "×", BUDGET)
    low, _, high = quantiles(ratios, n=4)
    return row, f"{what}: half of {len(pairs)} ratios lie between {low:.3f} and {high:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds",
        type=int,
        default=30,
        help="syncs of all weights each way, and ten times as many of adapters (default: 30)",
    )
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"], help="default: 28")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        model = model_of(options.layers)
        weights = {key: weight.clone() for key, weight in model.named_parameters()}
        millions = sum(weight.numel() for weight in weights.values()) / 1e6
        rows = []
        with contextlib.redirect_stdout(io.StringIO()):  # the noise announces itself each time
            full = measure(Rollout(weights, model, False, Path(name)), options.rounds)
            rows.append(row_of(f"sync of {millions:.0f} M weights, noise on {2 * options.layers + 1} norms", full))
            adapters = adapters_of(model)
            lora = measure(Rollout(adapters, model, True, Path(name)), 10 * options.rounds)
            rows.append(row_of(f"sync of LoRA adapters of rank {RANK}, noise on the same norms", lora))
    print(HEAD, *(row for row, _ in rows), "", *(spread for _, spread in rows), sep="\n")
    return int(not all(row.kept for row, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
