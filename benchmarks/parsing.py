"""Reading logs, in turns with what people would do instead:

    python benchmarks/parsing.py [--megabytes 1024] [--runs 100] [--steps 10000]

CPU seconds of one core for a log of a gigabyte, the first time and after one more megabyte; memory of the same; and
the comparison of many long runs whose logs were read before. Each measurement is a process of its own. Exits with 1
where a budget is broken.
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
from itertools import chain
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.logs import metrics_line, write_log
from benchmarks.rows import HEAD, Row, memory
from rlx.compare import compare
from rlx.evidence import JudgedRun, judge, read_evidence, read_log
from rlx.plan import Expectations, LaunchPlan, RunState, Site
from rlx.runs.parsed import ParsedFiles

_MB = 10**6


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="of the log (default: 1024)")
    parser.add_argument("--runs", type=int, default=100, help="to compare (default: 100)")
    parser.add_argument("--steps", type=int, default=10_000, help="of each of them (default: 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.task:
        return _task(*options.task)
    kept = True
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for row in chain(
            _one_log(Path(folder), options.megabytes << 20, options.rounds),
            _many_runs(Path(folder), options.runs, options.steps, options.rounds),
        ):
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


def _many_runs(folder: Path, runs: int, steps: int, rounds: int) -> Iterator[Row]:
    rng = random.Random(3)
    for number in range(runs):
        attempt = folder / "runs" / str(number)
        (attempt / "state").mkdir(parents=True)
        (attempt / "state" / "exit").write_text("0 leader 1 1\n")
        with (attempt / "log").open("wb") as log:
            line = metrics_line(rng, 0).partition(b" - ")[2]
            for step in range(1, steps + 1):
                log.write(b"step:%d - val-core/x/acc/mean@1:%.3f - %s" % (step, rng.random(), line))
    _measured("compare", str(folder / "runs"), str(folder))
    warm = [_measured("compare", str(folder / "runs"), str(folder)) for _ in range(rounds)]
    name = f"{runs} runs of {steps} steps"
    yield from (
        Row(f"comparing {name}, read before: CPU time", "–", "–", median(each["cpu"] for each in warm), "s", 1.5),
        memory(f"comparing {name}", max(each["memory"] for each in warm), 200),
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
    elif what == "kept":
        read_evidence([first], ParsedFiles(rest[0]))
    else:
        _compare(sorted(first.iterdir()), rest[0])
    seconds = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps({**seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}))
    return 0


def _judged(attempt: Path, parsed: ParsedFiles) -> JudgedRun:
    evidence = read_evidence([attempt], parsed)
    promised = Expectations(None, (), False, None, 1, "auto", None, False)
    plan = LaunchPlan(
        name="many",
        arm=attempt.name,
        control="0",
        seed=1,
        backend="verl",
        backend_version="0.9.1",
        site=Site(),
        command=(),
        env={},
        secrets=(),
        files=(),
        expectations=promised,
        treatment=(),
        recipe={"name": "many"},
        device_kind="cpu",
        devices=1,
    )
    verdict = judge(evidence, promised, RunState.FINISHED, arm=plan.arm)
    return JudgedRun(attempt.name, plan.run_name, plan.arm, 1, plan, evidence, verdict, RunState.FINISHED, {})


def _compare(attempts: Sequence[Path], home: Path) -> None:
    control, *treatments = [_judged(attempt, ParsedFiles(home)) for attempt in attempts]
    compare([control], [[run] for run in treatments])


if __name__ == "__main__":
    sys.exit(main())
