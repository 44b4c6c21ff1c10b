"""Looking at runs: status of many hosts, a search in a large log, a log that is followed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from threading import Thread

from benchmarks.rows import Row, Way, excess, in_turns, memory, ratio
from tests.rig.client import Client
from tests.rig.host import Host
from tests.rig.rig import Rig

# A process counts what the one that started it had, so that is a small one.
_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""

# One run on each host; toys, since a back-end takes minutes to say that it has begun.
_START = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from rlx.hosts import site_of
from rlx.planning.preflight import checked
from rlx.runs import launch
from tests.runs.toys import toy_plan

home, hosts = Path.home() / ".local/share/rlx", sys.argv[1:]
plan = toy_plan("echo up; exec sleep infinity")
launches = [[replace(plan, arm=host, site=replace(site_of("root@" + host), root="/srv/rlx"))] for host in hosts]
with ThreadPoolExecutor(4) as pool:
    for launched in pool.map(lambda plans: launch([checked(plan) for plan in plans], {}, home), launches):
        print(launched.runs[0].run_id)
"""

_LINE = (
    "(TaskRunner pid=4711) step:{step} - global_seqlen/mean:512.0 - actor/entropy:1.25 - actor/kl_loss:0.001 - "
    "training/rollout_probs_diff_mean:0.01 - perf/throughput:1234.5 - timing_s/step:30.0{more}\n"
)
_PATTERN = "val-core/[a-z0-9/]*acc/mean@1"
_NOISE = "(WorkerDict pid=4712) INFO 11-21 12:00:00 [block_pool.py:378] Successfully reset prefix cache\n"


def start_runs(client: Client, hosts: Sequence[str]) -> list[str]:
    """The ids of runs that go on for ever, one on each host."""
    return client.run(sys.executable, "-c", _START, *hosts).stdout.decode().split()


# ---- status --------------------------------------------------------------------------------------------------------


def statuses(rig: Rig, rounds: int, counts: Sequence[int]) -> Iterator[Row]:
    for host in rig.hosts:
        host.delay(100)
    ids = start_runs(rig.client, [host.name for host in rig.hosts])
    ways: dict[str, Way] = {str(count): partial(rig.client.rlx, "status", *ids[:count]) for count in counts}
    # What the hosts need for half of their answer, on the cores of this one machine.
    ways["by hand"] = partial(rig.client.run, "sh", "-c", _ask_all(ids))
    seconds = in_turns(ways, rounds)
    for count in counts[1:]:
        what = f"status of {count} hosts, 100 ms round trip, warm"
        budget = 0.15 if count == counts[-1] else None
        yield excess(what, seconds[str(count)], "a single host", seconds["1"], budget)
    what = f"status of {counts[-1]} hosts, warm"
    yield ratio(what, seconds[str(counts[-1])], "supervise.sh report by as many ssh at once", seconds["by hand"])
    yield memory(f"status of {counts[-1]} hosts", _peak_megabytes(rig.client, "status", *ids))


def _ask_all(ids: Sequence[str]) -> str:
    shared = "-o ControlMaster=auto -o ControlPersist=60 -o ControlPath=/tmp/by-hand-%C"
    asked = (
        f"ssh {shared} h{n} sh /srv/rlx/runs/{id_}/supervise.sh report /srv/rlx {id_}" for n, id_ in enumerate(ids, 1)
    )
    return " & ".join(asked) + " & wait"


# ---- search --------------------------------------------------------------------------------------------------------


def searches(rig: Rig, rounds: int, size: int) -> Iterator[Row]:
    client, host = rig.client, rig.host("h1")
    (run_id,) = start_runs(client, ["h1"])
    log = f"/srv/rlx/runs/{run_id}/latest/log"
    fill(_path_of_log(host, run_id), size)
    rlx = ("logs", run_id, "--grep", _PATTERN)
    by_hand = ("ssh", "h1", f"LC_ALL=C grep -aE '{_PATTERN}' {log}")
    assert client.rlx(*rlx).stdout == client.run(*by_hand).stdout, "both find the same"
    seconds = in_turns({"rlx": lambda: client.rlx(*rlx), "by hand": lambda: client.run(*by_hand)}, rounds)
    what = f"logs --grep, {size / 1e9:g} GB"
    yield ratio(what, seconds["rlx"], "ssh grep", seconds["by hand"], 1.1)
    yield memory(what, _peak_megabytes(client, *rlx), 60)


def fill(log: Path, size: int) -> None:
    """A console log of this size; every tenth step is validated. Steps repeat, which no search minds."""
    validated = " - val-core/openai/gsm8k/acc/mean@1:0.5"
    steps = ((validated if step % 10 == 0 else "") for step in range(100))
    block = "".join(_LINE.format(step=step, more=more) + 290 * _NOISE for step, more in enumerate(steps)).encode()
    with log.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


# ---- follow --------------------------------------------------------------------------------------------------------


def follows(rig: Rig, appends: int) -> Iterator[Row]:
    client, host = rig.client, rig.host("h1")
    (run_id,) = start_runs(client, ["h1"])
    log = _path_of_log(host, run_id)
    for delay in (0, 100):
        host.delay(delay)
        rlx = _Reader(client, sys.executable, "-m", "rlx", "-q", "logs", "-f", run_id)
        by_hand = _Reader(client, "ssh", "h1", f"tail -n +1 -F /srv/rlx/runs/{run_id}/latest/log")
        with rlx, by_hand:
            lags = [_lags(log, (rlx, by_hand), f"{delay} ms, line {n}") for n in range(-1, appends)][1:]
        seconds = [median(column) for column in zip(*lags, strict=True)]
        yield excess(f"follow, {delay} ms round trip: a line is seen after", seconds[0], "ssh tail -F", seconds[1])


class _Reader:
    """A command that shows lines as they come; knows when each was seen."""

    def __init__(self, client: Client, *argv: str) -> None:
        self._process = client.popen(*argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.seen: dict[str, float] = {}
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen[line.decode().strip()] = time.monotonic()

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def _lags(log: Path, readers: Sequence[_Reader], line: str) -> list[float]:
    # Training writes now and then, in no rhythm with whoever reads.
    time.sleep(0.4 + 0.2 * random.random())
    with log.open("a", encoding="utf-8") as file:
        began = time.monotonic()
        file.write(f"{line}\n")
    while not all(line in reader.seen for reader in readers):
        assert time.monotonic() < began + 60, f"nobody showed {line!r}"
        time.sleep(0.005)
    return [reader.seen[line] - began for reader in readers]


# ---- helpers -------------------------------------------------------------------------------------------------------


def _path_of_log(host: Host, run_id: str) -> Path:
    return host.path(f"/srv/rlx/runs/{run_id}/attempts/1/log")


def _peak_megabytes(client: Client, *argv: str) -> float:
    """The most memory that rlx, or one of the programs it starts, has at a time."""
    return int(client.run(sys.executable, "-c", _PEAK, sys.executable, "-m", "rlx", *argv).stdout) * 1024 / 1e6
