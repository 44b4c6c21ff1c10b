"""Four arms with five seeds over four hosts, of which one reboots, one loses its cable and one has a full disk."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable

from rlx.runs import Index
from tests.runs.sweeps import RECIPE, Sweep, began, let_go
from tests.runs.sweeps import sweep_of as sweep_of
from tests.runs.test_sweeps import RLX
from tests.runs.toys import home, until

ARMS = "  mid: {train: {lr: 0.5}}\n  high: {train: {lr: 0.9}}\n"
SEEDS = ("--seed", 1, 2, "--seed", 3, "--seed", 4, "--seed", 5)


def test_every_run_of_a_sweep_is_accounted_for(sweep_of: Callable[[int], Sweep]) -> None:
    sweep = sweep_of(4)
    sweep.recipe.write_text(RECIPE + ARMS, encoding="utf-8")
    rebooted, cut, full, last = sweep.hosts
    # Room for what a launch brings, and the preflight warns of it; a run that writes finds none.
    full.path("/root/rlx").mkdir()
    full.limit_disk("/root/rlx", 1 << 30)
    # The laptop goes to sleep when one host has its share and another one has not.
    last.wrap_program("tar", "while [ ! -e /srv/unpack ]; do sleep 0.05; done")
    client = sweep.rig.client
    words = ("launch", str(sweep.recipe), "--host", sweep.names, "--spread", *map(str, SEEDS), "-y")
    with client.popen(sys.executable, "-c", RLX, *words, env=dict(client.environment())) as rlx:
        until(lambda: began(rebooted) and began(cut) and began(full), "three hosts have begun", 120)
        until(lambda: "tar" in last.processes().values(), "the share of the last one has arrived", 120)
        rlx.send_signal(signal.SIGKILL)
    last.kill("tar")
    last.path("/srv/unpack").touch()
    ids = sweep.launch(*SEEDS, "-y")
    assert len(ids) == 20 and sweep.heard(f"launch {Index(home()).runs()[0].launch_id}")
    homes = {seed: hosts for seed, hosts in places(sweep).items()}
    assert all(len(hosts) == 1 for hosts in homes.values()) and set().union(*homes.values()) == {"h1", "h2", "h3", "h4"}
    # From here on one host each has its accident, with a run of its own that had begun.
    rebooted.reboot()
    cut.cut()
    full.run("sh", "-c", "cat /dev/zero >/root/rlx/ballast || true")
    let_go(full, last, cut)
    until(lambda: len(began(last)) >= 4, "the last host works off its share", 120)
    sweep.tend()
    cut.heal()
    until(lambda: all(row["state"] in ENDED for row in sweep.rows()), "all have ended", 120)
    rows = {row["run_id"]: row for row in sweep.rows()}
    assert sorted(rows) == sorted(ids)
    # What was under way on the host that rebooted, and what waited there, is lost and said to be.
    assert {row["host"] for row in rows.values() if row["state"] == "lost"} == {"h1"}
    starts = Counter(run for host in sweep.hosts for run in began(host))
    assert set(starts.values()) == {1} and set(starts) <= set(ids)
    for seed in homes:
        block = [row for row in rows.values() if row["seed"] == seed]
        assert len({row["host"] for row in block}) == 1 and len(block) == 4
    for row in rows.values():
        assert (row["verdict"]["status"] == "valid") == (row["state"] == "finished"), row
    assert all(run in starts for run, row in rows.items() if row["state"] == "finished")


ENDED = ("finished", "failed", "lost", "stopped")


def places(sweep: Sweep) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for row in sweep.rows():
        found.setdefault(row["seed"], set()).add(row["host"])
    return found
