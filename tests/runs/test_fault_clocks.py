"""Clocks that are off by a day, there or here: ages, states and orders stay right."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from rlx.model import DEFAULT_LEASES, RunState
from rlx.runs import query_leases
from tests.conftest import REPOSITORY
from tests.rig import Host, Rig
from tests.runs.laptop import GO, Laptop, go, patiently, run_folder, toy

STEP = "echo '(TaskRunner pid=7) step:1 - timing_s/step:0.5 - critic/score/mean:0.25'\n"
DAY_S = 86400.0


@pytest.fixture
def laptop(rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(rig.client, tmp_path / "home")


@pytest.fixture(params=["+1d", "-1d"])
def host(request: pytest.FixtureRequest, rig: Rig) -> Host:
    """Its clock is off by a day, that of h2 is right."""
    host = rig.host("h1")
    host.shift_clock(request.param)
    return host


SHIFT = """
import time

true = time.time
time.time = lambda: true() + {offset}
"""


@pytest.fixture(params=[DAY_S, -DAY_S], ids=["+1d", "-1d"])
def shifted(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """What gives a Python another clock. Not libfaketime: the sleeps of Python fail under it."""
    folder = tmp_path / "shift"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SHIFT.format(offset=request.param), encoding="utf-8")
    return {"PYTHONPATH": f"{folder}:{REPOSITORY}"}


def hostwards(rig: Rig) -> float:
    """Seconds by which the clock of h1 is ahead."""
    clocks = [float(rig.client.run("ssh", name, "date +%s").stdout) for name in ("h1", "h2")]
    return clocks[0] - clocks[1]


def test_a_host_that_is_off_by_a_day(rig: Rig, host: Host, laptop: Laptop) -> None:
    assert abs(abs(hostwards(rig)) - DAY_S) < 60
    ref = laptop.start(host, toy(laptop.site("h1"), STEP + GO))
    (waiting,) = laptop.launch(toy(laptop.site("h1"), "exit 3\n", arm="waiting"))
    other = laptop.start(rig.host("h2"), toy(laptop.site("h2"), GO, arm="other"))
    assert laptop.reaches(waiting, RunState.QUEUED).queued_behind == 1
    seen = laptop.see(ref)
    assert (seen.state, seen.leader_live) == (RunState.STARTING, True)
    assert seen.seconds_since_log is not None and seen.seconds_since_log < 600
    leases = rig.client.call(lambda: query_leases(ref.place, DEFAULT_LEASES))
    assert 0 <= leases.now - leases.held[0].since < 600 and 0 <= leases.now - leases.waiting[0].since < 600
    rows = laptop.rows("--all")
    assert list(rows) == ["other", "waiting", "main"], "the newest launch first, by this machine's clock"
    assert rows["main"]["steps_done"] == 1
    patiently(lambda: "step:1" in laptop.rlx("logs", "main", "--since", "10m").out, "it was written just now")
    with laptop.start_rlx("logs", "-f", "main", stdout=subprocess.PIPE) as follow:
        assert follow.stdout is not None and follow.stdout.readline() == b"up\n"
        for machine, run in ((host, ref), (rig.host("h2"), other)):
            go(machine, run)
        assert follow.stdout.read().count(b"step:1") == 1
    assert follow.returncode == 0
    assert (laptop.ended(ref).state, laptop.ended(waiting).exit_code) == (RunState.FINISHED, 3)
    done = laptop.see(ref)
    assert done.started_epoch is not None and done.ended_epoch is not None
    assert 0 <= done.ended_epoch - done.started_epoch < 600, "both by the same clock"
    again = Laptop(rig.client, laptop.home.with_name("second"))
    assert set(again.rows("--host", "h1")) == {"main", "waiting"}


def test_by_age_nothing_of_a_host_whose_clock_is_off_is_deleted(rig: Rig, host: Host, laptop: Laptop) -> None:
    places = {"skewed": host, "right": rig.host("h2")}
    refs = {arm: laptop.launch(toy(laptop.site(place.name), "exit 0\n", arm=arm))[0] for arm, place in places.items()}
    for ref in refs.values():
        assert laptop.ended(ref).state is RunState.FINISHED
    folders = {arm: run_folder(place, refs[arm]) for arm, place in places.items()}
    seen = laptop.see(refs["skewed"])
    assert seen.seconds_since_end is not None and 0 <= seen.seconds_since_end < 3600, "by the clock that recorded it"
    assert seen.clock is not None and abs(abs(seen.clock.off_s) - DAY_S) < 60
    for age, options in (("12h", ["--dry-run"]), ("12h", ["-y"]), ("0s", ["-y"])):
        for what in ("runs", "checkpoints", "mirrors"):
            said = laptop.rlx("prune", "--older-than", age, "--what", what, *options)
            assert said.code == 1 and "RLX515 h1: " in said.err and "h2" not in said.err, said
        assert folders["skewed"].is_dir()
        assert folders["right"].is_dir() is (age == "12h")
    document = json.loads(laptop.rlx("prune", "--older-than", "0s", "--what", "runs", "-y", "--json").out)
    assert list(document["skewed"]) == ["h1"] and document["found"] == document["deleted"] == []
    # Without an age no clock matters.
    assert laptop.rlx("prune", "skewed", "--what", "runs", "-y").code == 0
    assert not folders["skewed"].exists()


def test_ages_of_a_host_that_is_a_little_off_go_by_its_clock(rig: Rig, laptop: Laptop) -> None:
    host = rig.host("h1")
    host.shift_clock("-50s")
    (ref,) = laptop.launch(toy(laptop.site("h1"), "exit 0\n"))
    ended = laptop.ended(ref)
    seen, now = laptop.see(ref), time.time()
    assert ended.ended_epoch is not None and seen.seconds_since_end is not None
    assert seen.seconds_since_end < now - ended.ended_epoch - 45, "the difference of the clocks is no age"
    assert laptop.rlx("prune", "--older-than", "0s", "--what", "runs", "-y").code == 0
    assert not run_folder(host, ref).exists()


def test_a_laptop_that_is_off_by_a_day(rig: Rig, laptop: Laptop, shifted: dict[str, str]) -> None:
    host = rig.host("h1")
    plans = laptop.write_plans(toy(laptop.site("h1"), STEP + GO))
    assert laptop.rlx("launch", "--plan", plans, env=shifted).code == 0
    (ref,) = laptop.runs()
    patiently(lambda: "step:1" in laptop.rlx("logs", "--since", "10m", env=shifted).out, "it was written just now")
    assert "running" in laptop.rlx("status", env=shifted).out
    # With the right clock again, the index holds a launch of yesterday or of tomorrow.
    assert laptop.see(ref).leader_live
    (later,) = laptop.launch(toy(laptop.site("h1"), "exit 0\n", arm="later"))
    assert laptop.reaches(later, RunState.QUEUED)
    host.stop_sshd()
    rows = laptop.rows("main")
    assert rows["main"]["state"] == "unreachable"
    assert rows["main"]["last_known"] == "running"
    assert not re.search(r"-\d", rows["main"]["detail"].partition("toy-")[2].partition(")")[2]), rows["main"]["detail"]
    host.start_sshd()
    go(host, ref)
    assert laptop.ended(later).state is laptop.ended(ref).state is RunState.FINISHED
    wait = laptop.rlx("wait", "main", env=shifted)
    assert wait.code == 0, wait
