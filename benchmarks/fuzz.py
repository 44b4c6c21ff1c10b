"""Feed every parser that reads from outside with mangled inputs: no crash, no hang, no more than 200 MB.

python benchmarks/fuzz.py [--minutes 10] [--seed 1] [--only NAME…] [--keep FOLDER] [--jobs 1]
python benchmarks/fuzz.py --inputs 50             so many of each parser instead of a time
python benchmarks/fuzz.py --only NAME --replay 7  input 7 of a parser, with its traceback

Input N of a parser follows from the seed, the name and N alone. Each parser runs in a process of its own, which is
started again after a crash. An input fails that raises anything but what the parser declares, takes over LIMIT_S of
CPU time, or brings the process over MOST_MIB of memory, the interpreter and what counts the coverage included. Prints a
row a parser, with the branches of its modules that were taken, and exits with 1 if an input failed; those are kept.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
sys.path[:0] = [str(REPOSITORY)]
LIMIT_S = 10
MOST_MIB = 200
ADDRESS_SPACE = 4 << 30
A_PROCESS = 20_000
MOST_RESTARTS = 20
_PEAK = re.compile(r"VmHWM:\s+(\d+)")


@dataclass
class Told:
    """What came of one parser: inputs and those that it refused, the slowest and the largest, and failures by kind."""

    inputs: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    peak_mib: int = 0
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, other: dict[str, Any]) -> None:
        self.inputs += other["inputs"]
        self.refused += other["refused"]
        self.slowest_s = max(self.slowest_s, other["slowest_s"])
        self.peak_mib = max(self.peak_mib, other["peak_mib"])
        for kind, number in other["failures"].items():
            self.failures.setdefault(kind, number)


class TookTooLong(BaseException):
    """No parser may catch it."""


# ---- one process, one parser ----------------------------------------------------------------------------------------


def work(name: str, options: argparse.Namespace) -> None:
    """Feed a parser until the time is over or the inputs are; tell it on stdout, and the number under way in a file."""
    counting = _coverage(options.scratch / f"coverage.{name.replace(' ', '_')}.{os.getpid()}")
    from benchmarks.outside_parsers import PARSERS

    parser = PARSERS[name]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGPROF, _too_long)
    told, seeds = Told(), parser.seeds()
    with _number_file(options.scratch / f"at.{name}") as at, tempfile.TemporaryDirectory() as folder:
        until = time.monotonic() + options.seconds
        for number in range(options.first, min(options.last, options.first + A_PROCESS)):
            if time.monotonic() > until:
                break
            at[:8] = number.to_bytes(8, "little")
            _feed(parser, input_of(parser, seeds, options.seed, number), Path(folder) / "own", told, number)
    counting.stop()
    counting.save()
    print(json.dumps(vars(told)))


def input_of(parser: Any, seeds: Sequence[bytes], seed: int, number: int) -> bytes:
    """Make the input of this number, the same one each time."""
    from benchmarks.mangled import mangled

    rng = random.Random(f"{seed}:{parser.name}:{number}")
    return parser.drawn(rng) if parser.drawn and rng.random() < 0.8 else mangled(seeds, rng)


def _feed(parser: Any, data: bytes, folder: Path, told: Told, number: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _reset_peak()
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        parser.parse(data, folder)
    except parser.refusals:
        told.refused += 1
    except (Exception, TookTooLong) as error:  # noqa: BLE001 - that is what is sought
        told.failures.setdefault(_kind(error), number)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    told.inputs += 1
    told.slowest_s = max(told.slowest_s, time.process_time() - began)
    peak = _peak_mib()
    told.peak_mib = max(told.peak_mib, peak)
    if peak > MOST_MIB:
        told.failures.setdefault(f"took {peak} MiB", number)


def _kind(error: BaseException) -> str:
    """Say what happened and where in rlx, so that the same failure counts once."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(f"{REPOSITORY}/rlx/")
    ]
    where = f"{Path(frames[-1].filename).relative_to(REPOSITORY)}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {where}: {str(error)[:120]}"


def _too_long(signum: int, frame: Any) -> None:
    raise TookTooLong


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _peak_mib() -> int:
    found = _PEAK.search(Path("/proc/self/status").read_text(encoding="utf-8"))
    return int(found[1]) // 1024 if found else 0


def _coverage(data_file: Path) -> Any:
    import coverage

    counting = coverage.Coverage(
        data_file=str(data_file), branch=True, config_file=False, source=[str(REPOSITORY / "rlx")]
    )
    counting.start()
    return counting


def _number_file(path: Path) -> mmap.mmap:
    path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 8)


# ---- the process that watches ---------------------------------------------------------------------------------------


def watch(name: str, options: argparse.Namespace) -> Told:
    """Run a parser until its time is over, in new processes after a crash or a hang."""
    told, first, until = Told(), 0, time.monotonic() + options.seconds
    crashes = 0
    while first < options.inputs and time.monotonic() < until and crashes < MOST_RESTARTS:
        answer, at, reason = _worker(name, options, first, max(0.1, until - time.monotonic()))
        if answer is not None:
            told.add(answer)
            first += answer["inputs"]
            continue
        crashes += 1
        told.add({"inputs": 1, "refused": 0, "slowest_s": 0.0, "peak_mib": 0, "failures": {reason: at}})
        first = at + 1
    return told


def _worker(name: str, options: argparse.Namespace, first: int, seconds: float) -> tuple[Any, int, str]:
    """Return what a worker told, or at which input it ended and how."""
    arguments = [
        "--work",
        name,
        "--first",
        first,
        "--last",
        options.inputs,
        "--seconds",
        seconds,
        "--seed",
        options.seed,
    ]
    command = [sys.executable, __file__, *map(str, arguments), "--scratch", str(options.scratch)]
    home = {
        "RLX_HOME": str(options.scratch / "home"),
        "RLX_CONFIG": str(options.scratch / "none"),
        "RLX_PROJECT": os.devnull,
    }
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | home, encoding="utf-8"
    )
    hung = _watched(process, options.scratch / f"at.{name}", seconds)
    out, err = process.communicate()
    if not (options.scratch / f"at.{name}").exists():
        sys.exit(f"{name}: no input was tried: {(err.strip().splitlines() or ['it ended'])[-1]}")
    at = int.from_bytes((options.scratch / f"at.{name}").read_bytes(), "little")
    if process.returncode == 0:
        return json.loads(out.splitlines()[-1]), at, ""
    last = err.strip().splitlines()[-1:] or [f"exit {process.returncode}"]
    return None, at, "hangs, and nothing ends it" if hung else f"its process ended: {last[0][:200]}"


def _watched(process: subprocess.Popen[str], at: Path, seconds: float) -> bool:
    """End a worker that uses three times the limit for one input: what its own timer cannot break off."""
    number, since = b"", 0.0
    while process.poll() is None:
        try:
            process.wait(timeout=1)
            break
        except subprocess.TimeoutExpired:
            pass
        now, used = at.read_bytes() if at.exists() else b"", _cpu_s(process.pid)
        if now != number:
            number, since = now, used
        elif used - since > 3 * LIMIT_S + 20:
            process.kill()
            return True
    return False


def _cpu_s(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


# ---- the table ------------------------------------------------------------------------------------------------------


def branches(scratch: Path) -> dict[str, tuple[int, int]]:
    """Combine what all workers counted: taken and all branches of each module, by its path."""
    import coverage

    counted = coverage.Coverage(data_file=str(scratch / "all"), branch=True, config_file=False)
    counted.combine([str(path) for path in scratch.glob("coverage.*")])
    counted.json_report(outfile=str(scratch / "branches.json"))
    files = json.loads((scratch / "branches.json").read_text(encoding="utf-8"))["files"]
    found = {str(Path(path).resolve().relative_to(REPOSITORY)): file["summary"] for path, file in files.items()}
    return {
        path: (summary.get("covered_branches", 0), summary.get("num_branches", 0)) for path, summary in found.items()
    }


def rows(told: dict[str, Told], taken: dict[str, tuple[int, int]]) -> Iterator[str]:
    from benchmarks.outside_parsers import PARSERS

    yield "| parser | inputs | refused | slowest | most memory | branches taken | failures |"
    yield "|---|---|---|---|---|---|---|"
    for name, one in told.items():
        of = [counts for path, counts in taken.items() if path.startswith(PARSERS[name].modules)]
        hit, every = sum(count for count, _ in of), sum(count for _, count in of)
        share = f"{hit} of {every} ({hit / every:.0%})" if every else "-"
        yield (
            f"| {name} | {one.inputs:,} | {one.refused / max(1, one.inputs):.0%} | {one.slowest_s:.2f} s "
            f"| {one.peak_mib} MiB | {share} | {len(one.failures)} |"
        )
    yield f"\n{sum(one.inputs for one in told.values()):,} inputs"


def keep(told: dict[str, Told], options: argparse.Namespace) -> Iterator[str]:
    """Write the inputs that failed, and say where."""
    from benchmarks.outside_parsers import PARSERS

    for name, one in told.items():
        seeds = PARSERS[name].seeds() if one.failures else []
        for kind, number in one.failures.items():
            path = options.keep / f"{name.replace(' ', '-')}-{options.seed}-{number}"
            options.keep.mkdir(parents=True, exist_ok=True)
            path.write_bytes(input_of(PARSERS[name], seeds, options.seed, number))
            yield f"{name}, input {number}: {kind}\n  {path}"


def replay(name: str, options: argparse.Namespace) -> None:
    from benchmarks.outside_parsers import PARSERS

    parser = PARSERS[name]
    data = input_of(parser, parser.seeds(), options.seed, options.replay)
    print(f"{len(data)} bytes: {data[:2000]!r}")
    with tempfile.TemporaryDirectory() as folder:
        parser.parse(data, Path(folder))


def main() -> int:
    options = _options()
    if options.work:
        work(options.work, options)
        return 0
    from benchmarks.outside_parsers import PARSERS

    names = options.only or list(PARSERS)
    if options.replay is not None:
        replay(names[0], options)
        return 0
    options.seconds = 60 * options.minutes * options.jobs / len(names)
    with tempfile.TemporaryDirectory(prefix="rlx-fuzz-") as scratch, ThreadPoolExecutor(options.jobs) as pool:
        options.scratch = Path(scratch)
        found = pool.map(lambda name: watch(name, options), names)
        told = dict(zip(names, found, strict=True))
        print("\n".join(rows(told, branches(options.scratch))))
        print("\n".join(keep(told, options)))
    return 1 if any(one.failures for one in told.values()) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="of all parsers together")
    parser.add_argument("--inputs", type=int, default=1 << 62, help="of each parser at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="parsers at once")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "rlx-fuzz-kept"), metavar="FOLDER")
    parser.add_argument("--replay", type=int, metavar="N")
    # How it calls itself.
    for name, kind in (("work", str), ("first", int), ("last", int), ("seconds", float), ("scratch", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
