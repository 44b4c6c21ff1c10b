"""rlx over SSH, against what people type by hand: python benchmarks/remote.py [--rounds N] [--gigabytes G]

Hosts are namespaces of this machine with a real sshd and Docker each (tests/rig; needs root); the network between them
is as slow as a row says. All numbers are ratios of wall times measured in turns: client, hosts and containers share the
cores of one machine, so seconds mean little. Exits with 1 where a budget is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from rlx.plan import to_jsonable
from tests.rig.rig import Rig

SCRIPT = "echo up\necho 'step:1 - val-core/x/acc/mean@1:0.5'\n"
BY_HAND = (
    "scp -q /tmp/launch.sh h1:/tmp/launch.sh && "
    "ssh h1 'docker cp -q /tmp/launch.sh rl:/srv/launch.sh 2>/dev/null || docker cp /tmp/launch.sh rl:/srv/launch.sh' && "
    'ssh h1 \'tmux new-session -d -s hand-{n} "docker exec rl bash -c \\"bash /srv/launch.sh >/srv/log 2>&1\\""\' && '
    "ssh h1 'docker exec rl sh -c \"grep val-core /srv/log | tail -1\"'; true"
)


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured, as a ratio to what; `budget` is the largest ratio that keeps the promise of the design."""

    what: str
    seconds: float
    against: str
    reference: float
    budget: float | None = None

    @property
    def ratio(self) -> float:
        return self.seconds / self.reference

    @property
    def kept(self) -> bool:
        return self.budget is None or self.ratio <= self.budget

    def __str__(self) -> str:
        limit = "–" if self.budget is None else f"{self.budget:.3g}{'' if self.kept else '  over'}"
        return (
            f"| {self.what} | {self.seconds:.2f} | {self.against} | {self.reference:.2f} | {self.ratio:.2f} | {limit} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each command runs (default: 5)")
    parser.add_argument("--gigabytes", type=float, default=2, help="size of the log that is searched (default: 2)")
    options = parser.parse_args()
    print("| what | s | against | s | ratio | budget |\n|---|---|---|---|---|---|")
    rows = []
    for row in measure(options.rounds, options.gigabytes):
        rows.append(row)
        print(row, flush=True)
    return int(not all(row.kept for row in rows))


def measure(rounds: int, gigabytes: float) -> Iterator[Row]:
    with Rig(2) as rig:
        yield from launches(rig, rounds)
        yield from searches(rig, rounds, int(gigabytes * 1e9))
        yield follow_latency(rig, 40)
    for count in (1, 8, 32):
        with Rig(count) as rig:
            yield status_of(rig, rounds)


# ---- launch --------------------------------------------------------------------------------------------------------


def launches(rig: Rig, rounds: int) -> Iterator[Row]:
    host = rig.host("h1")
    host.docker.container("rl", {"/srv": "/srv"})
    rig.client.path("/tmp/launch.sh").write_text(SCRIPT)
    rig.client.rlx("hosts", "add", "h1", "root@h1", "--container", "rl", "--root", "/srv/rlx")
    for delay in (0, 20, 100):
        host.delay(delay)
        ways = {"by hand": by_hand(rig), "cold": cold(rig), "warm": warm(rig)}
        seconds = in_turns(ways, rounds)
        name = f"launch into a container, round trip {delay} ms"
        budgets = {"cold": 1 / 3, "warm": 1 / 8} if delay == 100 else {}
        for how in ("cold", "warm"):
            yield Row(
                f"{name}, {how}", seconds[how], "scp, docker cp, tmux, grep", seconds["by hand"], budgets.get(how)
            )
    host.delay(0)


def by_hand(rig: Rig) -> Callable[[], None]:
    numbers = iter(range(1_000_000))
    return lambda: discard(rig.client.run("sh", "-c", BY_HAND.format(n=next(numbers))))


def warm(rig: Rig) -> Callable[[], None]:
    numbers = iter(range(1_000_000))
    return lambda: discard(rig.client.rlx("-q", "launch", "--plan", plan_file(rig, f"w{next(numbers)}")))


def cold(rig: Rig) -> Callable[[], None]:
    launch = warm(rig)

    def close_and_launch() -> None:
        # What a laptop that just woke up has: no open connection.
        close_connections(rig)
        launch()

    return close_and_launch


def plan_file(rig: Rig, name: str) -> str:
    from rlx.hosts import locate, site_of

    site, _ = rig.client.call(lambda: locate(site_of("h1")))
    path = f"/tmp/{name}.json"
    rig.client.path(path).write_text(json.dumps({"plans": [to_jsonable(toy_plan(site, name))]}))
    return path


# ---- helpers -------------------------------------------------------------------------------------------------------


def in_turns(ways: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median wall seconds of each; the first round only warms up."""
    samples = [{name: timed(way) for name, way in ways.items()} for _ in range(rounds + 1)]
    return {name: median(sample[name] for sample in samples[1:]) for name in ways}


def timed(way: Callable[[], None]) -> float:
    began = time.monotonic()
    way()
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
