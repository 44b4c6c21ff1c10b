"""The comparison of many long runs as a person sees it, through the command line:

    python benchmarks/comparing.py [--runs 100] [--steps 10000] [--kind imported launched]

`imported`: console logs taken in by `rlx import`. `launched`: run directories as rlx leaves them, with console log,
metrics.jsonl, and in every arm but the control a noise event a step. All log 100 metrics a step and are validated every
100 steps. The first `rlx compare` reads what no import has read, the second finds what the first one kept, the last
comes after one megabyte more in one log. CPU seconds include all processes. 100 runs take 8 GB of the temporary folder.
Exits with 1 where a budget is broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.long_runs import ITEMS, write_console, write_run
from benchmarks.rows import HEAD, Row, memory

_REPOSITORY = Path(__file__).parent.parent
_MB = 10**6
_OUTCOMES = (0, 11, 14)
"""Exit codes of a comparison that was printed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds on the clock and of all cores, and the most memory of one process in MB."""

    wall: float
    cpu: float
    memory: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="to compare (default: 100)")
    parser.add_argument("--steps", type=int, default=10_000, help="of each of them (default: 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often the warm ones are measured (default: 3)")
    parser.add_argument("--kind", nargs="+", choices=("imported", "launched"), default=("imported", "launched"))
    parser.add_argument("--folder", type=Path, help="where all files go, and stay for another look")
    options = parser.parse_args(arguments)
    kept = True
    print(HEAD)
    for kind in options.kind:
        with tempfile.TemporaryDirectory() as scratch:
            for row in _rows(options.folder / kind if options.folder else Path(scratch), kind, options):
                print(row, flush=True)
                kept = kept and row.kept
    return int(not kept)


def _rows(folder: Path, kind: str, options: argparse.Namespace) -> Iterator[Row]:
    runs, steps, rounds = options.runs, options.steps, range(options.rounds)
    folder.mkdir(parents=True, exist_ok=True)
    arms, name = [f"a{number}" for number in range(runs)], f"{runs} {kind} runs of {steps} steps"
    taken_in = _import(folder, arms, steps) if kind == "imported" else _lay_out(folder, arms, steps)
    logs = [path for path in folder.glob("**/attempts/1/*") if path.is_file()]
    megabytes = sum(log.stat().st_size for log in logs) / _MB
    first = run_rlx(folder, "compare", *arms)
    again = [run_rlx(folder, "compare", *arms) for _ in rounds]
    late = [_after_more(folder, arms, _last_log(logs, arms[-1]), steps + 1 + n) for n in rounds]
    warm, grown = (median(cost.cpu for cost in costs) for costs in (again, late))
    reading = taken_in + first.cpu
    yield from (
        Row(f"{name}, first time: {megabytes:.0f} MB", f"{reading:.1f} s", "–", megabytes / reading, "MB/s"),
        memory(f"{name}, first time", first.memory),
        Row(f"{name}, again: wall time", "–", "–", median(cost.wall for cost in again), "s"),
        Row(f"{name}, again: CPU time", "–", "–", warm, "s", 1.5),
        memory(f"{name}, again", max(cost.memory for cost in again), 200),
        Row(f"{name}, 1 MB more: CPU time", f"{grown:.2f} s", f"{warm:.2f} s unchanged", grown - warm, "s more", 0.2),
    )


def _last_log(files: Sequence[Path], arm: str) -> Path:
    return next(path for path in files if path.name == "log" and f"many-{arm}-" in str(path))


def _import(folder: Path, arms: Sequence[str], steps: int) -> float:
    """The CPU seconds of all imports."""
    log, seconds = folder / "console.log", 0.0
    for number, arm in enumerate(arms):
        write_console(log, number, steps)
        seconds += run_rlx(folder, "import", str(log), "--name", "many", "--arm", arm, "--val-size", str(ITEMS)).cpu
    log.unlink()
    return seconds


def _lay_out(folder: Path, arms: Sequence[str], steps: int) -> float:
    for number, arm in enumerate(arms):
        # The last one did not record its end, so that more may come.
        write_run(folder / "root", arm, number, steps, ended=arm != arms[-1])
    return 0.0


def _after_more(folder: Path, arms: Sequence[str], log: Path, step: int) -> Cost:
    with log.open("a", encoding="utf-8") as file:
        file.write("chatter of somebody else, nothing more\n" * (_MB // 39))
        file.write(f"step:{step} - timing_s/step:40.5 - actor/some_longer_name/1:0.5\n")
    return run_rlx(folder, "compare", *arms)


def run_rlx(folder: Path, *words: str, more: Mapping[str, Path] | None = None) -> Cost:
    """`more`: variables. Raises CalledProcessError with what it said where it fails."""
    places = {"RLX_HOME": folder / "home", "RLX_ROOT": folder / "root", "RLX_CONFIG": folder / "config"}
    # Compiled as an installed rlx is.
    places |= {"PYTHONPYCACHEPREFIX": folder / "compiled", "PYTHONPATH": _REPOSITORY, **(more or {})}
    environment = {**os.environ, **{name: str(path) for name, path in places.items()}}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command, began = [sys.executable, "-m", "rlx", *words], time.monotonic()
    with (folder / "said").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        if process.returncode not in _OUTCOMES:
            said.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, said.read())
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


if __name__ == "__main__":
    sys.exit(main())
