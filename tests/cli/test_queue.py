"""`rlx queue`: who has which devices, who waits for them behind whom, and about when they start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from rlx.cli.text.queue_text import queue_document, queue_tables, ranges
from rlx.errors import ExitCode, UsageError
from rlx.hosts import local_site
from rlx.model import LaunchPlan, RunState
from rlx.runs import RunRef
from rlx.runs.duration import duration, time_zone
from rlx.runs.status.forecast import TimeEstimate
from rlx.runs.status.host_queue import Holder, HostQueue, Waiter
from tests.cli.support import rlx
from tests.conftest import stop_runs_below
from tests.devices import machine_with
from tests.loopback import Loopback, loopback
from tests.runs.far import Far, far
from tests.runs.toys import FOREVER, reaches, start, toy_plan, until

__all__ = ["Loopback", "far", "loopback"]

HOUR = 3600.0


@pytest.fixture
def four_npus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with machine_with(tmp_path, monkeypatch, *(f"davinci{n}" for n in range(4)), "davinci_manager"):
        yield
        stop_runs_below(tmp_path / "root" / "runs")


def npus(*listed: int, count: int = 1, arm: str) -> LaunchPlan:
    plan = replace(toy_plan(FOREVER, arm=arm), device_kind="npu", devices=len(listed) or count, device_list=listed)
    return replace(plan, site=local_site())


def begin(plan: LaunchPlan, state: RunState) -> RunRef:
    (ref,) = start(plan)
    reaches(ref, state)
    return ref


def drawn(*queues: HostQueue, width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(queue_tables(queues, width))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_who_has_who_waits_and_behind_whom(four_npus: None) -> None:
    has = begin(npus(0, 1, arm="has"), RunState.STARTING)
    same = begin(npus(0, 1, arm="same"), RunState.QUEUED)
    passes = begin(npus(2, arm="passes"), RunState.STARTING)
    many = begin(npus(count=2, arm="many"), RunState.QUEUED)
    document = json.loads(rlx("queue", "--json").stdout)
    (host,) = document["hosts"]
    assert host["problem"] is None
    assert [(run["run_id"], run["devices"]) for run in host["held"]] == [(has.run_id, [0, 1]), (passes.run_id, [2])]
    assert [(run["run_id"], run["count"], run["could"], run["behind"]) for run in host["waiting"]] == [
        (same.run_id, 2, [0, 1], [has.run_id]),
        (many.run_id, 2, [0, 1, 2, 3], [has.run_id, passes.run_id, same.run_id]),
    ]
    assert host["free"] == [{"kind": "npu", "device": 3}]
    shown = rlx("queue").stdout
    assert [line.split()[:3] for line in shown.splitlines() if "toy-many-s1" in line] == [["4", "any", "2"]]
    assert [line.split()[-3:] for line in shown.splitlines() if "toy-many-s1" in line] == [["1,", "2,", "3"]]
    assert [each.host for each in front_door.queue("local")] == ["local"]


def test_a_host_that_nobody_knows_and_none_at_all(wording: SnapshotAssertion) -> None:
    nothing = rlx("queue")
    assert (nothing.stdout, nothing.stderr) == ("", wording)
    assert "'nowhere'" in rlx("queue", "nowhere", code=ExitCode.USAGE).stderr
    with pytest.raises(UsageError, match="nowhere"):
        front_door.queue(["nowhere"])


def test_a_host_that_does_not_answer_costs_its_own_line_only(wording: SnapshotAssertion) -> None:
    rlx("hosts", "add", "dead", "ssh://me@127.0.0.1:1")
    shown = rlx("queue", "local", "dead").stdout.splitlines()
    assert shown[0] == "local" and shown[2].startswith("dead: ") and shown[:2] == wording
    hosts = json.loads(rlx("queue", "local", "dead", "--json").stdout)["hosts"]
    assert [(host["host"], bool(host["problem"])) for host in hosts] == [("local", False), ("dead", True)]
    rlx("queue", "dead", code=ExitCode.UNREACHABLE)


def test_a_far_host_says_about_when_the_next_run_starts(far: Far) -> None:
    """Seven of twenty steps of 41 s are done; nothing is known of the other arm."""
    leases = str(far.loopback.home / "leases")
    rlx("hosts", "add", "loop", "loop", "--leases", leases)
    steps = "".join(f"echo 'step:{n} - training/global_step:{n} - timing_s/step:41.0'\n" for n in range(1, 8))
    plans = [with_steps(far, f"{steps}echo up\n{FOREVER}", arm, leases) for arm in ("first", "second")]
    first, second = start(*plans)
    until(lambda: "up" in far.log(first), "the first makes its steps")
    (host,) = json.loads(rlx("queue", "--json").stdout)["hosts"]
    assert [run["seconds_left"] for run in host["held"]] == [13 * 41.0]
    assert [run["start"]["seconds"] for run in host["waiting"]] == [13 * 41.0]
    assert [run["behind"] for run in host["waiting"]] == [[first.run_id]]
    (launch,) = json.loads(rlx("status", "--json").stdout)["launches"]
    (why,) = launch["end"].pop("why")
    assert launch["end"] == {"seconds": None, "at_least": 13 * 41.0} and "second" in why
    assert [each["run_ids"] for each in launch["waiting"]] == [[second.run_id]]
    rlx("hosts", "remove", "loop")
    assert rlx("queue").stdout.startswith("loop\n"), "its runs are still known"


def with_steps(far: Far, script: str, arm: str, leases: str) -> LaunchPlan:
    plan, place = far.plan(script, arm=arm), far.loopback.place
    expectations = replace(plan.expectations, total_steps=20)
    site = replace(far.site, place=place, leases=leases)
    return replace(plan, site=site, backend="verl", backend_version="0.9.1", expectations=expectations)


# ---- in words --------------------------------------------------------------------------------------------------------


def holder(name: str, *devices: int, left: float | None = None) -> Holder:
    return Holder(f"{name}-20261124-165144-ab12", "npu", devices, "ada", None, 0.0, False, left)


def waiter(name: str, wanted: int | None, start_at: TimeEstimate, *behind: str) -> Waiter:
    could = None if wanted is None else tuple(range(8))
    ids = tuple(f"{run}-20261124-165144-ab12" for run in behind)
    return Waiter(f"{name}-20261124-165144-ab12", "npu", wanted, could, "ada", None, 0.0, ids, start_at)


def test_what_is_known_of_the_start_is_said_and_no_more() -> None:
    queue = HostQueue(
        "a3",
        held=(holder("gsm8k-baseline-s1", 0, 1, 2, 3, left=HOUR), holder("somebody-s1", 4)),
        waiting=(
            waiter("gsm8k-aqn-s1", 4, TimeEstimate(HOUR, HOUR), "gsm8k-baseline-s1"),
            waiter("gsm8k-aqn-s2", 8, TimeEstimate(None, HOUR), "gsm8k-baseline-s1", "somebody-s1", "gsm8k-aqn-s1"),
            waiter("old-s1", None, TimeEstimate(None)),
        ),
        now=2 * HOUR,
    )
    for width in (80, 120):
        lines = drawn(queue, HostQueue("a4", problem="a4: no answer after 20 s"), width=width)
        assert lines[0] == "a3" and lines[-1] == "a4: no answer after 20 s"
        assert max(map(len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        assert [text.count(words) for words in ("about", "not before", "unknown", "–")] == [2, 1, 2, 1]
        assert text.count(f"ENDS ({time_zone()})") == text.count(f"STARTS ({time_zone()})") == 1
        assert text.count(time_zone()) == 2, "the zone is in headings only"
        assert "npu 0-7" in text and "any 4 npu" in text
        assert text.count(f" ada {duration(2 * HOUR)} ") == 5, "how long goes by the host's clock"
    assert queue_document(queue)["waiting"][1].start.seconds is None


def test_numbers_as_ranges() -> None:
    assert ranges([7, 0, 2, 1]) == "0-2,7"
    assert ranges([]) == ""
