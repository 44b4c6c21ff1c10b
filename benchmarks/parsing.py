"""Reading logs, in turns with what people would do instead:

    python benchmarks/parsing.py [--megabytes 1024]

CPU seconds of one core for a log of a gigabyte, the first time and after one more megabyte, and memory of the same.
Each measurement is a process of its own. Exits with 1 where a budget is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.logs import metrics_line, write_log
from benchmarks.rows import HEAD, Row, memory
from rlx.evidence import read_evidence, read_log
from rlx.runs.judging.parser_cache import ParsedFiles

_MB = 10**6


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="of the log (default: 1024)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.task:
        return _task(*options.task)
    kept = True
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for row in _one_log(Path(folder), options.megabytes << 20, options.rounds):
            print(row, flush=True)
            kept = kept and row.kept
    return int(not kept)


def _one_log(folder: Path, size: int, rounds: int) -> Iterator[Row]:
    run = folder / "1"
    run.mkdir()
    steps = write_log(run / "log", size)
    megabytes = (run / "log").stat().st_size / _MB
    ways = {"read": ("wc", "-l", str(run / "log")), "grep": ("grep", "-ac", "step:", str(run / "log"))}
    samples = [
        {
            **{name: _cpu_of(command) for name, command in ways.items()},
            "first": (first := _measured("log", str(run / "log")))["cpu"],
            "memory": first["memory"],
        }
        for _ in range(rounds)
    ]
    first, read, grep = (median(sample[name] for sample in samples) for name in ("first", "read", "grep"))
    _measured("kept", str(run), str(folder))
    after = []
    for _ in range(rounds):
        with (run / "log").open("ab") as log:
            log.write(b"chatter of somebody else, nothing more\n" * (_MB // 39))
            log.write(metrics_line(random.Random(2), steps := steps + 1))
        after.append(_measured("kept", str(run), str(folder)))
    name = f"a log of {megabytes:.0f} MB"
    yield from (
        Row(f"{name}, first time: MB a second", f"{first:.2f} s", "–", megabytes / first, "MB/s"),
        Row(f"{name}: CPU time for 200 MB", f"{200 * first / megabytes:.2f} s", "–", 200 * first / megabytes, "s", 1.0),
        Row(f"{name}: CPU time", f"{first:.2f} s", f"{grep:.2f} s grep -c", first / grep, "×"),
        Row(f"{name}: CPU time", f"{first:.2f} s", f"{read:.2f} s wc -l", first / read, "×"),
        memory(name, max(sample["memory"] for sample in samples), 100),
        Row(f"{name}, 1 MB more: CPU time", "–", "–", median(each["cpu"] for each in after), "s", 0.2),
    )


def _cpu_of(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Not to /dev/null: grep notices, and stops at the first match.
    subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, "LC_ALL": "C"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _measured(*task: str) -> dict[str, float]:
    result = subprocess.run((sys.executable, __file__, "--task", *task), capture_output=True, check=True)
    found: dict[str, float] = json.loads(result.stdout)
    return found


def _task(what: str, *paths: str) -> int:
    """In a process of its own: seconds without the start of Python, and the most memory with it."""
    wall, cpu = time.monotonic(), time.process_time()
    first, *rest = map(Path, paths)
    if what == "log":
        read_log(first)
    else:
        read_evidence([first], ParsedFiles(rest[0]))
    seconds = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps({**seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
