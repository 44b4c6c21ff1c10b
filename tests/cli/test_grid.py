"""A launch of several arms and seeds: a grid of its runs, what waits and why, and about when all of them have ended."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from rlx.cli.text.run_text import end_words, tables
from rlx.evidence import Evidence, Verdict, VerdictStatus
from rlx.model import Place, RunState
from rlx.runs import Observation, RunRef
from rlx.runs.duration import clock_time, time_zone
from rlx.runs.status.forecast import TimeEstimate, estimate_end, sweeps
from rlx.runs.status.snapshots import Snapshot
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs
from tests.wording import settled

HOUR = 3600.0
ARMS = ("baseline", "aqn", "aqn-corrected", "correction")


def run(arm: str, seed: int, state: RunState, *, host: str = "a3", steps: int = 0, **more: object) -> Snapshot:
    """A run as a look finds it: of those that go on or have ended, 20 steps are 2 hours."""
    started, ended = more.pop("started", None), more.pop("ended", None)
    seen = Observation(
        f"sums-{arm}-s{seed}-20261124-165144-ab12",
        state,
        queued_behind=int(str(more.pop("behind", 0))),
        detail=str(more.pop("detail", "")),
        started_epoch=None if started is None else 0.0,
        ended_epoch=None if ended is None else float(str(ended)),
        seconds_since_start=None if started is None else float(str(started)),
    )
    ref = RunRef(seen.run_id, "20261124-165144-0aa0", "sums", arm, seed, Place(host, f"me@{host}"), "~/rlx", 0.0)
    word = VerdictStatus(str(more.pop("verdict", "incomplete")))
    verdict = Verdict(word, (), f"{word}: because", "none")
    return Snapshot(ref, seen, Evidence(), verdict, steps_done=steps, steps_total=20, **more)  # type: ignore[arg-type]


def at_work(arm: str, seed: int, steps: int, **more: object) -> Snapshot:
    return run(
        arm, seed, RunState.RUNNING, steps=steps, started=360.0 * steps, seconds_left=360.0 * (20 - steps), **more
    )


def ended(arm: str, seed: int, verdict: str = "valid", hours: float = 2, **more: object) -> Snapshot:
    return run(arm, seed, RunState.FINISHED, steps=20, started=0.0, ended=hours * HOUR, verdict=verdict, **more)


def waits(arm: str, seed: int, behind: int, **more: object) -> Snapshot:
    return run(arm, seed, RunState.QUEUED, behind=behind, detail=f"behind {behind} runs", **more)


def drawn(rows: Sequence[Snapshot], width: int = 80, *, verbose: bool = False, as_grid: bool = True) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(tables(rows, verbose, {}, width, as_grid))
    return [line.rstrip() for line in capture.get().splitlines()]


SPREAD = [
    ended("baseline", 1),
    ended("aqn", 1, "unverified"),
    at_work("baseline", 2, 10, host="a4"),
    at_work("aqn", 2, 5, host="a4"),
    waits("aqn", 3, 2, host="a4"),
    waits("baseline", 3, 3, host="a4"),
]


def test_a_cell_says_state_steps_and_verdict_and_no_result(wording: SnapshotAssertion) -> None:
    lines = drawn(SPREAD)
    assert lines[:7] == wording
    assert [line.split("  ")[0] for line in lines[1:5]] == ["SEED", "1", "2", "3"]
    assert [" ".join(line.split()) for line in lines[1:5]] == [
        "SEED HOST baseline aqn",
        "1 a3 finished 20/20 valid finished 20/20 unverified",
        "2 a4 running 10/20 running 5/20",
        "3 a4 queued behind 3 queued behind 2",
    ]
    assert re.search(r"\b\d\d:\d\d\b", lines[7]), "when all have ended"


@pytest.mark.parametrize(("width", "rows"), [(120, 4), (80, 8), (50, 0)])
def test_it_fits_the_terminal_or_is_a_list(width: int, rows: int) -> None:
    four = [ended(arm, seed) for seed in range(1, 5) for arm in ARMS]
    lines = drawn(four, width)
    assert max(map(len, lines)) <= width
    assert lines[1].split()[0] == ("SEED" if rows else "ARM")
    assert len(lines) == 2 + (rows or 16) + 1


def test_who_does_not_want_it_gets_the_list_with_the_hosts() -> None:
    lines = drawn(SPREAD, 120, as_grid=False)
    assert lines[1].split()[:3] == ["ARM", "HOST", "STATE"]
    assert re.search(r"\b\d\d:\d\d\b", lines[-1])
    assert drawn(SPREAD[:2])[1].split()[0] == "ARM", "one seed is no grid"


def test_what_cannot_end_well_is_said_below() -> None:
    assert "SEED" in drawn(SPREAD, verbose=True)[1]
    assert any(line.startswith("sums-baseline-s2") for line in drawn(SPREAD, verbose=True))


# ---- when all have ended ---------------------------------------------------------------------------------------------


def test_the_rest_takes_what_others_of_its_arm_take() -> None:
    """Of two devices the first is free in one hour, for aqn of seed 3, and the second half an hour later."""
    assert estimate_end(SPREAD) == TimeEstimate(3 * HOUR + HOUR / 2, 3 * HOUR + HOUR / 2)
    assert estimate_end(SPREAD[:2]) is None


def test_nothing_is_said_of_an_arm_that_nobody_has_seen(wording: SnapshotAssertion) -> None:
    rows = [at_work("baseline", 1, 10), waits("aqn", 1, 1)]
    found = estimate_end(rows)
    assert found is not None and (found.seconds, found.at_least, len(found.why)) == (None, HOUR, 1)
    assert "aqn" in found.why[0] and found.why == wording


def test_the_end_is_said_as_far_as_it_is_known(wording: SnapshotAssertion) -> None:
    now = time.time()
    named = {f"{clock_time(now + HOUR)} {time_zone()}": "time"}
    assert settled(end_words(TimeEstimate(HOUR, HOUR), now), named) == wording
    assert settled(end_words(TimeEstimate(None, HOUR, ("the reason",)), now), named) == wording


@pytest.mark.parametrize(
    ("rows", "subject"),
    [
        pytest.param([waits("aqn", 1, 1)], "a3", id="others"),
        pytest.param([at_work("aqn", 1, 5), waits("aqn", 2, 2)], "a3", id="another-before-it"),
        pytest.param([at_work("aqn", 1, 5), waits("aqn", 2, 1, devices=2)], "a3", id="more-devices"),
        pytest.param([ended("aqn", 1), waits("aqn", 2, 0)], "a3", id="not-started"),
        pytest.param(
            [ended("aqn", 1), run("aqn", 2, RunState.UNREACHABLE, host="a4", started=9.0)], "a4", id="unreachable"
        ),
        pytest.param([ended("aqn", 1), run("aqn", 2, RunState.STALLED, started=9.0, steps=3)], "aqn-s2", id="stalled"),
        pytest.param([run("aqn", 2, RunState.STARTING, started=9.0)], "aqn", id="no-pace"),
    ],
)
def test_an_unknown_end_says_what_is_missing(rows: list[Snapshot], subject: str, wording: SnapshotAssertion) -> None:
    found = estimate_end(rows)
    assert found is not None and found.seconds is None
    assert any(subject in why for why in found.why) and found.why == wording


def test_a_run_that_has_just_started_takes_as_long_as_the_others() -> None:
    rows = [ended("aqn", 1, hours=2), run("aqn", 2, RunState.STARTING, started=HOUR)]
    assert estimate_end(rows) == TimeEstimate(HOUR, 0.0)


def test_the_facts_are_in_json_too() -> None:
    (sweep,) = sweeps(SPREAD)
    assert (sweep.hosts, sweep.arms, sweep.seeds, sweep.ended) == (("a3", "a4"), ("baseline", "aqn"), (1, 2, 3), 2)
    assert [(each.host, len(each.run_ids), each.why) for each in sweep.waiting] == [("a4", 2, "behind 2 runs")]


def test_a_launch_of_six_real_runs(wording: SnapshotAssertion) -> None:
    place_runs(CASES / "six-runs")
    shown = rlx("status").stdout.splitlines()
    assert [line.split()[:1] for line in shown[1:5]] == [["SEED"], ["1"], ["2"], ["3"]]
    assert re.findall(r"\d+", shown[-1]) == ["6", "6", "6"] and shown[-1] == wording
    assert rlx("status", "--no-grid").stdout.splitlines()[1].split()[0] == "ARM"
    (launch,) = json.loads(rlx("status", "--json").stdout)["launches"]
    assert (launch["arms"], launch["seeds"], launch["ended"], launch["end"]) == (
        ["baseline", "aqn"],
        [1, 2, 3],
        6,
        None,
    )
