"""A launch that is cut on its way into a container, at every step: nothing, or all of it; a repeat never doubles it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.hosts.host_errors import HostError
from rlx.model import LaunchPlan, RunState, Site
from tests.rig import Container, Host, Rig
from tests.runs.laptop import NARROW, Laptop, heavy, patiently, toy

COUNT = "echo once >>$RLX_RUN_DIR/count\n"

MOMENTS: dict[str, Callable[[Path, str], object]] = {
    "before anything": lambda runs, name: True,
    "it begins to arrive": lambda runs, name: list(runs.glob(".incoming-*")),
    "it arrives": lambda runs, name: list(runs.glob(f".incoming-*/*{name}-a*")),
    "it is there": lambda runs, name: list(runs.glob(".incoming-*/order")),
    "the first run is in place": lambda runs, name: list(runs.glob(f"*{name}-a*/")),
    "the first has a holder": lambda runs, name: list(runs.glob(f"*{name}-a*/holder")),
    "the first starts": lambda runs, name: list(runs.glob(f"*{name}-a*/attempts/1/state/started")),
    "the second run is in place": lambda runs, name: list(runs.glob(f"*{name}-b*/")),
    "the second has a holder": lambda runs, name: list(runs.glob(f"*{name}-b*/holder")),
}


@pytest.fixture
def laptop(docker_rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(docker_rig.client, tmp_path / "home")


def pair(site: Site, name: str) -> list[LaunchPlan]:
    return [heavy(toy(site, COUNT, arm=f"{name}-{arm}")) for arm in "ab"]


class Attempt:
    """A launch in a thread."""

    def __init__(self, laptop: Laptop, plans: list[LaunchPlan]) -> None:
        self.problem: HostError | None = None
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._launch, args=(laptop, plans))
        self._thread.start()

    def _launch(self, laptop: Laptop, plans: list[LaunchPlan]) -> None:
        try:
            laptop.launch(*plans)
        except HostError as problem:
            self.problem = problem
        finally:
            self.over.set()

    def cut_at(self, moment: Callable[[], object], cut: Callable[[], object]) -> None:
        while not self.over.is_set() and not moment():
            time.sleep(0.001)
        cut()
        self._thread.join()


def present(runs: Path, name: str) -> list[str]:
    return [path.name for path in runs.glob(f"*{name}-?-*")] if runs.exists() else []


def check_repeat(laptop: Laptop, runs: Path, name: str, attempt: Attempt, plans: list[LaunchPlan]) -> None:
    """What is there now is nothing or all, what was said of it is true, and the same launch again completes it."""
    there = present(runs, name)
    assert len(there) in (0, 2), name
    patiently(lambda: not list(runs.glob(".incoming-*")), f"{name}: what arrived in part is removed")
    if attempt.problem is None:
        assert len(there) == 2, name
        return
    # Where runs may have started, the fix says how to see them.
    assert "rlx status --host" in attempt.problem.hint or not there, (name, attempt.problem.message)
    again = laptop.launch(*plans)
    assert not there or sorted(ref.run_id for ref in again) == sorted(there), name
    assert len(present(runs, name)) == 2, name


@pytest.mark.parametrize("shared", [True, False], ids=["shared folder", "in the container itself"])
def test_killed_connections_during_a_launch(docker_rig: Rig, laptop: Laptop, shared: bool) -> None:
    host = docker_rig.host("h1")
    container = host.docker.container("rl", {"/srv": "/data"} if shared else {})
    site = laptop.site("h1", "rl")
    runs = host.path("/srv/rlx-root/runs") if shared else root_of(container) / "root/rlx/runs"
    host.rate(NARROW)
    outcomes = set()
    for number, moment in enumerate(MOMENTS.values()):
        name = f"m{number}"
        plans = pair(site, name)
        attempt = Attempt(laptop, plans)
        attempt.cut_at(lambda moment=moment, name=name: moment(runs, name), host.break_connections)  # type: ignore[misc]
        if runs.exists():
            container.run("flock", "/data/rlx-root/runs" if shared else "/root/rlx/runs", "true")
        outcomes.add((attempt.problem is None, len(present(runs, name))))
        check_repeat(laptop, runs, name, attempt, plans)
    host.rate(0)
    assert {(False, 0), (False, 2)} <= outcomes, "some cuts come before it has arrived, and some after"
    refs = laptop.runs()
    assert len(refs) == 2 * len(MOMENTS)
    for ref in refs:
        assert laptop.ended(ref).state is RunState.FINISHED
        assert (runs / ref.run_id / "count").read_text(encoding="utf-8") == "once\n"


def test_a_host_that_is_slow_to_clear_up_is_given_the_time(docker_rig: Rig, laptop: Laptop) -> None:
    """What ends the command over there must not end the removal of what has arrived, secrets among it."""
    host = docker_rig.host("h1")
    host.wrap_program("rm", 'case $2 in *.incoming-*) [ ! -e "$2" ] || sleep 2 ;; esac')
    host.docker.container("rl", {"/srv": "/data"})
    plans = pair(laptop.site("h1", "rl"), "slow")
    host.rate(NARROW)
    attempt = Attempt(laptop, plans)
    attempt.cut_at(lambda: MOMENTS["it arrives"](runs_of(host), "slow"), host.break_connections)
    host.run("flock", "/srv/rlx-root/runs", "true")
    check_repeat(laptop, runs_of(host), "slow", attempt, plans)


def root_of(container: Container) -> Path:
    """The files of a container, as the tests see them."""
    pid = container.host.run("docker", "inspect", "-f", "{{.State.Pid}}", container.id).stdout.decode().strip()
    return container.host.path(f"/proc/{pid}/root")


def test_a_cable_that_is_pulled_during_a_launch(docker_rig: Rig, laptop: Laptop) -> None:
    """Two hosts at once, since it takes its time until ssh gives up: on one while it arrives, on one when it runs."""
    cases = {"h1": "it arrives", "h2": "the second has a holder"}
    attempts: dict[str, Attempt] = {}
    plans: dict[str, list[LaunchPlan]] = {}
    for name, moment in cases.items():
        host = docker_rig.host(name)
        host.docker.container("rl", {"/srv": "/data"})
        plans[name] = pair(laptop.site(name, "rl"), name)
        runs = runs_of(host)
        host.rate(NARROW)
        attempts[name] = Attempt(laptop, plans[name])
        patiently(lambda moment=moment, runs=runs, name=name: MOMENTS[moment](runs, name), moment)  # type: ignore[misc]
        host.cut()
    for name, attempt in attempts.items():
        host = docker_rig.host(name)
        attempt.cut_at(lambda: False, lambda: None)
        # The host notices by itself only much later, or never; what has arrived is complete before that.
        host.heal()
        host.rate(0)
        host.break_connections()
        host.run("flock", "/srv/rlx-root/runs", "true")
        check_repeat(laptop, runs_of(host), name, attempt, plans[name])
    assert attempts["h1"].problem is not None
    refs = laptop.runs()
    assert len(refs) == 4
    for ref in refs:
        assert laptop.ended(ref).state is RunState.FINISHED
        assert (runs_of(docker_rig.host(ref.host)) / ref.run_id / "count").read_text(encoding="utf-8") == "once\n"


def runs_of(host: Host) -> Path:
    return host.path("/srv/rlx-root/runs")


def test_a_look_at_a_container_that_is_cut_leaves_nothing_there(docker_rig: Rig, laptop: Laptop) -> None:
    host = docker_rig.host("h1")
    host.wrap_program("docker", '[ "$1" != exec ] || sleep 2')
    host.docker.container("rl", {"/srv": "/data"})

    def look() -> None:
        with pytest.raises(HostError):
            laptop.site("h1", "rl")

    thread = threading.Thread(target=look)
    thread.start()
    patiently(lambda: list(host.path("/srv").glob(".rlx-probe-*")), "it tries a folder out")
    host.break_connections()
    thread.join()
    patiently(lambda: not list(host.path("/srv").glob(".rlx-probe-*")), "it clears up behind itself")
    assert laptop.site("h1", "rl").root == "/srv/rlx-root"
