"""A sweep over several hosts: whole blocks, by what is free and what fits, and each run once."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

from syrupy.assertion import SnapshotAssertion

from rlx.api.planning import HostCapacity, distribute
from rlx.runs import Index
from rlx.runs.index.run_index import INDEX_FILE
from rlx.runs.index.tables import Move, MovePhase
from rlx.runs.launching.moving import withdraw
from tests.runs.sweeps import EXPERIMENT, RECIPE, Sweep, began, fill_up, let_go
from tests.runs.sweeps import sweep_of as sweep_of
from tests.runs.toys import home, until
from tests.wording import settled

# rlx with the back-end of the tests, in a process that can be killed.
RLX = """
import sys
from rlx.backends import registry
registry.PACKAGES["toy"] = "tests.backends.toy"
from rlx.__main__ import main
sys.exit(main())
"""


def rooms(*rooms: tuple[str, int, int]) -> list[HostCapacity]:
    return [HostCapacity(*room) for room in rooms]


def test_a_block_goes_where_its_last_run_would_begin_first() -> None:
    two = {1: 2, 2: 2, 3: 2, 4: 2}
    assert distribute(two, rooms(("a", 1, 0), ("b", 1, 0)), {}) == {1: "a", 2: "b", 3: "a", 4: "b"}
    assert distribute(two, rooms(("a", 1, 5), ("b", 1, 0)), {}) == {1: "b", 2: "b", 3: "b", 4: "a"}
    assert distribute(two, rooms(("a", 1, 0), ("b", 4, 0)), {}) == {1: "b", 2: "b", 3: "b", 4: "a"}
    # What is settled counts as load, wherever it stands in the order, and a host that takes no part gets nothing.
    assert distribute(two, rooms(("a", 1, 0), ("b", 1, 0)), {4: "a"}) == {1: "b", 2: "a", 3: "b", 4: "a"}
    assert distribute(two, rooms(("a", 1, 0)), {2: "gone"}) == {1: "a", 3: "a", 4: "a"}


def places(sweep: Sweep) -> dict[int, set[str]]:
    """The hosts of each seed's runs."""
    found: dict[int, set[str]] = {}
    for row in sweep.rows():
        found.setdefault(row["seed"], set()).add(row["host"])
    return found


def all_end(sweep: Sweep) -> None:
    let_go(*sweep.hosts)
    sweep.rlx("wait")


def test_blocks_are_dealt_by_what_is_free_and_what_fits(
    sweep_of: Callable[[int], Sweep], wording: SnapshotAssertion
) -> None:
    sweep = sweep_of(4)
    busy, full, silent, free = sweep.hosts
    fill_up(full)
    silent.cut()
    for _ in range(3):
        sweep.rlx("launch", sweep.recipe, "--host", busy.name, "--arm", "slow", "--again")
    asked = ("--seed", 1, 2, 3, "--seed", 4)
    written = json.loads(sweep.rlx("plan", sweep.recipe, "--host", sweep.names, "--spread", *asked, "--json"))
    seen = {(plan["seed"], plan["arm"]): plan["site"]["place"]["host"] for plan in written["plans"]}
    assert list(seen) == [(seed, arm) for seed in (1, 2, 3, 4) for arm in ("slow", "fast")]
    # Three runs are ahead on h1: the first free one takes as many.
    assert {seed: {seen[seed, "slow"], seen[seed, "fast"]} for seed in (1, 2, 3, 4)} == {
        1: {"h4"},
        2: {"h4"},
        3: {"h1"},
        4: {"h4"},
    }
    told = {finding["message"].split(" ")[0]: finding for finding in written["findings"]}
    assert {finding["id"] for finding in told.values()} == {"RLX043"} and set(told) == {"h2", "h3"}
    assert "RLX512" in told["h2"]["message"]
    taken = [line for line in sweep.said if re.search(r"\bh[14]\b.*seeds? ", line)]
    assert sorted(re.findall(r"\bh[14]\b|\d", line) for line in taken) == [["h1", "3", "3"], ["h4", "1", "2", "4"]]
    assert taken == wording
    file = sweep.recipe.with_name("plans.json")
    file.write_text(json.dumps(written), encoding="utf-8")
    launched = json.loads(sweep.rlx("launch", "--plan", file, "--json"))
    assert {(run["seed"], run["host"]) for run in launched["runs"]} == {(1, "h4"), (2, "h4"), (3, "h1"), (4, "h4")}
    sweep.hosts = (busy, free)
    all_end(sweep)
    ids = {run["run_id"] for run in launched["runs"]}
    assert sorted(run for run in (*began(busy), *began(free)) if run in ids) == sorted(ids)


def test_where_no_host_is_left_it_says_why_for_each(
    sweep_of: Callable[[int], Sweep], wording: SnapshotAssertion
) -> None:
    sweep = sweep_of(2)
    full, silent = sweep.hosts
    fill_up(full)
    silent.cut()
    sweep.launch("--seed", 1, code=5)
    assert sweep.heard("h1: RLX512") and sweep.heard("h2: ")
    sweep.hosts = (silent, silent)
    # Whatever the recipe is.
    sweep.rlx("launch", "nowhere.yaml", "--host", sweep.names, "--spread", code=2)
    assert sweep.said == wording
    sweep.hosts = (silent,)
    sweep.launch("--seed", 1, code=2)
    assert sweep.said == wording
    sweep.hosts = (full, silent)
    sweep.rlx("launch", sweep.recipe, "--host", sweep.names, "--spread", "--nodes", code=2)
    assert sweep.said == wording


def test_several_hosts_without_a_word_are_asked_what_they_are_for(sweep_of: Callable[[int], Sweep]) -> None:
    sweep = sweep_of(2)
    sweep.rlx("launch", sweep.recipe, "--host", sweep.names, code=2)
    assert sweep.heard("RLX503") and sweep.heard("--spread") and sweep.heard("--nodes")


def test_a_launch_that_was_killed_between_two_hosts_is_completed(
    sweep_of: Callable[[int], Sweep], wording: SnapshotAssertion
) -> None:
    sweep = sweep_of(2)
    sweep.recipe.write_text(RECIPE + EXPERIMENT, encoding="utf-8")
    near, far = sweep.hosts
    # The share of h2 does not get through, and dies with its sender.
    far.wrap_program("tar", "while [ ! -e /srv/unpack ]; do sleep 0.05; done")
    words = ("launch", str(sweep.recipe), "--host", sweep.names, "--spread")
    with sweep.rig.client.popen(sys.executable, "-c", RLX, *words, env=dict(sweep.rig.client.environment())) as rlx:
        until(lambda: began(near), "the first run of h1 begins", 120)
        until(lambda: "tar" in far.processes().values(), "the share of h2 has arrived", 120)
        rlx.send_signal(signal.SIGKILL)
    far.kill("tar")
    far.path("/srv/unpack").touch()
    first = began(near)
    # h1 is busy by now, and the deal stays what it was.
    ids = sweep.launch()
    assert sweep.heard(f"launch {Index(home()).runs()[0].launch_id}")
    assert places(sweep) == {11: {"h1"}, 12: {"h2"}, 13: {"h1"}, 14: {"h2"}} and first[0] in ids
    all_end(sweep)
    assert sorted([*began(near), *began(far)]) == sorted(ids)
    assert sweep.launch() == []
    assert [re.sub(r"\b[0-9a-f]{12}\b", "<digest>", line) for line in sweep.said] == wording


def test_what_waits_moves_to_a_host_that_is_free(sweep_of: Callable[[int], Sweep], wording: SnapshotAssertion) -> None:
    sweep = sweep_of(2)
    near, far = sweep.hosts
    ids = sweep.launch("--seed", 1, 2, "--seed", 3, 4)

    def moves() -> bool:
        sweep.tend()
        return places(sweep)[3] == {"h2"}

    assert places(sweep) == {1: {"h1"}, 2: {"h2"}, 3: {"h1"}, 4: {"h2"}} and not sweep.heard("rlx wait")
    # Nobody can say what becomes of a host that does not answer: what it has stays its own.
    near.cut()
    let_go(far)
    until(lambda: len(began(far)) == 4, "h2 works off its share", 120)
    assert not moves() and not any(row["moved_from"] for row in sweep.rows())
    near.heal()
    until(moves, "it answers, and what waits there moves", 120)
    assert [row["seed"] for row in sweep.rows() if row["moved_from"] == ["h1"]] == [3, 3]
    until(lambda: len(began(far)) == 6, "they run there", 120)
    all_end(sweep)
    assert sorted([*began(near), *began(far)]) == sorted(ids)
    assert {row["verdict"]["status"] for row in sweep.rows()} == {"valid"}
    assert [line for line in sweep.rlx("status", "-v").splitlines() if "from h1" in line] == wording


def test_reading_moves_nothing_and_names_the_command_that_does(
    sweep_of: Callable[[int], Sweep], wording: SnapshotAssertion
) -> None:
    sweep = sweep_of(2)
    _, far = sweep.hosts
    ids = sweep.launch("--seed", 1, 2, "--seed", 3, "-y")
    let_go(far)
    until(lambda: len(began(far)) == 2, "h2 works off its share", 120)
    until(lambda: {row["state"] for row in sweep.rows() if row["host"] == "h2"} == {"finished"}, "h2 is free", 120)
    launch_id = sweep.rows()[0]["launch_id"]
    before = written(sweep)
    # Whatever reads, as often as it is typed.
    named: dict[str, list[str]] = {}
    for words in ("status", "status -v", "status -a", "status --host h1", "queue h1 h2"):
        sweep.rlx(*words.split())
        named[words] = [settled(line, {launch_id: "launch"}) for line in sweep.said if launch_id in line]
    assert [words for words, lines in named.items() if lines] == [words for words in named if words[:6] == "status"]
    assert named == wording
    for words in (("metrics",), ("show", ids[0]), ("diagnose", ids[0]), ("logs",)):
        sweep.rlx(*words, code=None)
    assert written(sweep) == before and places(sweep)[3] == {"h1"}
    sweep.rlx("wait", launch_id, "--timeout", "0s", code=11)
    assert [line for line in sweep.said if "seed 3 (slow, fast)" in line] == wording
    assert places(sweep)[3] == {"h2"}
    all_end(sweep)


def written(sweep: Sweep) -> dict[str, object]:
    """Blocks and run directories of the hosts, and the journals of launches and moves here."""
    found: dict[str, object] = {
        f"{host.name}:{file}": None
        for host in sweep.hosts
        for file in host.path("/root/rlx/runs").rglob("*")
        if "attempts" not in file.parts
    }
    with closing(sqlite3.connect(home() / INDEX_FILE)) as db:
        for table in ("launches", "moves", "promises", "tombstones"):
            found[table] = db.execute(f"SELECT * FROM {table}").fetchall()
    return found


def test_who_follows_the_logs_moves_blocks_and_sees_their_lines(sweep_of: Callable[[int], Sweep]) -> None:
    sweep = sweep_of(2)
    near, far = sweep.hosts
    sweep.launch("--seed", 1, 2, "--seed", 3)
    let_go(far)
    until(lambda: len(began(far)) == 2, "h2 works off its share", 120)

    def let_go_once_moved() -> None:
        try:
            until(lambda: len(began(far)) == 4, "what has moved to h2 begins there", 120)
        finally:
            let_go(near)

    with ThreadPoolExecutor(1) as beside:
        moved = beside.submit(let_go_once_moved)
        lines = sweep.rlx("logs", "-f").splitlines()
        moved.result()
    assert any(re.search(r"seed 3 \(slow, fast\) .*h1 .*h2", line) for line in sweep.said)
    assert len([line for line in lines if "toy step 3" in line]) == 6
    assert len(began(near)) == 2 and len(began(far)) == 4


def test_a_move_that_was_cut_off_anywhere_is_brought_to_its_end(
    sweep_of: Callable[[int], Sweep], wording: SnapshotAssertion
) -> None:
    """What the journal holds when rlx is killed at each of its steps; one block for each."""
    sweep = sweep_of(2)
    near, far = sweep.hosts
    far.cut()
    ids = sweep.launch("--seed", *range(1, 7), "-y")
    far.heal()
    until(lambda: began(near), "the first run begins", 120)
    index = Index(home())
    runs = {seed: [ref for ref in index.runs() if ref.seed == seed] for seed in range(1, 7)}
    launch_id = runs[1][0].launch_id

    def move(seed: int, phase: MovePhase = MovePhase.ASKED) -> Move:
        return Move(launch_id, seed, 1, "h1", "h2", 1e9, phase)

    def cut_off() -> None:
        index.note_move(move(2))  # before anything was asked
        withdraw(index, move(3), runs[3])
        index.note_move(move(3))  # withdrawn, and nobody heard
        withdraw(index, move(4), runs[4])  # withdrawn, and nothing shipped
        withdraw(index, move(5), runs[5])
        elsewhere = replace(runs[1][0].place, host="h2", destination="h2")
        index.relocate(
            move(5, MovePhase.SENT), [replace(ref, place=elsewhere) for ref in runs[5]]
        )  # about to be shipped
        assert not withdraw(index, move(1), runs[1]), "one of them runs"

    sweep.rig.client.call(cut_off)
    sweep.rlx("status")
    (cut,) = [line for line in sweep.said if "seed 2 " in line]
    assert f"rlx wait {launch_id}" in cut and settled(cut, {launch_id: "launch"}) == wording
    assert index.moves(launch_id) and {move.phase for move in index.moves(launch_id)} != {MovePhase.DONE}
    sweep.tend()
    # One that no host has goes where it would be through first, and one that was sent only where it was sent to.
    found = places(sweep)
    assert all(len(hosts) == 1 for hosts in found.values()) and len(found) == 6
    assert found[1] == {"h1"} and found[2] == {"h2"} and found[5] == {"h2"}
    assert {move.phase for move in index.moves(launch_id)} == {MovePhase.DONE}
    all_end(sweep)
    assert sorted([*began(near), *began(far)]) == sorted(ids)


def test_a_block_whose_host_takes_no_part_is_named_where_its_arms_would_differ(
    sweep_of: Callable[[int], Sweep],
) -> None:
    sweep = sweep_of(3)
    sweep.recipe.write_text(RECIPE + EXPERIMENT, encoding="utf-8")
    let_go(*sweep.hosts)
    # One arm of each of four seeds, two on h1 and two on h2.
    sweep.hosts = sweep.hosts[:2]
    sweep.launch("--arm", "slow")
    homes = places(sweep)
    assert sorted(seed for seed, hosts in homes.items() if hosts == {"h1"}) == [11, 13]
    sweep.rlx("wait")
    # Where its host takes part, the other arm goes there and nothing is to be said.
    words = ("launch", sweep.recipe, "--dry-run", "--spread", "--json", "--host")
    whole = json.loads(sweep.rlx(*words, "h1,h2"))
    assert not ids_of(whole["findings"]) and {plan["arm"] for plan in whole["plans"]} == {"fast"}
    assert {(plan["seed"], plan["site"]["place"]["host"]) for plan in whole["plans"]} == {
        (seed, host) for seed, hosts in homes.items() for host in hosts
    }
    apart = json.loads(sweep.rlx(*words, "h2,h3"))
    split = [finding["message"] for finding in apart["findings"] if finding["id"] == "RLX044"]
    assert [re.findall(r"seed (\d+)", message) for message in split] == [["11"], ["13"]]


def ids_of(findings: list[dict[str, str]]) -> set[str]:
    return {finding["id"] for finding in findings}


def test_runs_that_went_to_a_silent_host_stay_there(sweep_of: Callable[[int], Sweep]) -> None:
    sweep = sweep_of(2)
    near, far = sweep.hosts
    far.wrap_program("tar", "while [ ! -e /srv/unpack ]; do sleep 0.05; done")
    asked = ("--seed", "1", "--seed", "2", "-y")
    words = ("launch", str(sweep.recipe), "--host", sweep.names, "--spread", *asked)
    with sweep.rig.client.popen(sys.executable, "-c", RLX, *words, env=dict(sweep.rig.client.environment())) as rlx:
        until(lambda: began(near), "the first run of h1 begins", 120)
        until(lambda: "tar" in far.processes().values(), "the share of h2 has arrived", 120)
        rlx.send_signal(signal.SIGKILL)
    far.cut()
    # Nobody else gets the runs of h2, since they may have started.
    sweep.launch(*asked)
    assert any(re.search(r"RLX045 .*seed 2 .*h2", line) for line in sweep.said)
    assert {row["host"] for row in sweep.rows("--all") if row["seed"] == 1} == {"h1"}
    far.heal()
    far.path("/srv/unpack").touch()
    ids = sweep.launch(*asked)
    assert not sweep.heard("RLX045") and len(ids) == 4
    all_end(sweep)
    assert sorted([*began(near), *began(far)]) == sorted(ids)
