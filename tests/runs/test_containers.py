"""Runs inside a container: what is alive there, what is dead, and what nobody can tell."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.errors import RlxError
from rlx.hosts import local_site
from rlx.plan import LaunchPlan, RunState, Site
from rlx.runs import Observation, RunRef, stop
from tests.conftest import stop_runs_below
from tests.engine import Engine
from tests.runs.toys import (
    FOREVER,
    command_lines,
    ended,
    holder_pid,
    is_running,
    log_of,
    marked_processes,
    reaches,
    see,
    start,
    state_file,
    toy_plan,
    until,
)


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    """A running container that shares the root of the test under another name."""
    yield shared(engine, tmp_path, "trainer")
    stop_runs_below(tmp_path / "root" / "runs")


def shared(engine: Engine, tmp_path: Path, name: str, **options: object) -> Site:
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    container = engine.run_container(name, {root: "/shared"}, **options)  # type: ignore[arg-type]
    return replace(local_site(), container=name, container_id=container, container_root="/shared")


def plan_in(site: Site, script: str, **options: object) -> LaunchPlan:
    return replace(toy_plan(f"echo up\n{script}"), site=site, **options)  # type: ignore[arg-type]


def start_in(site: Site, script: str, **options: object) -> RunRef:
    (ref,) = start(plan_in(site, script, **options))
    until(lambda: "up" in log_of(ref), "the script runs")
    return ref


def test_runs_inside_and_tells_how_it_ended(site: Site) -> None:
    ref = start_in(site, "hostname; echo $RLX_RUN_DIR $RLX_DEVICES; umask; exit 7\n")
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 7)
    assert site.container_id is not None
    words = log_of(ref).split()
    assert words[1:4] == [site.container_id[:12], f"/shared/runs/{ref.run_id}", "0"]
    until(lambda: not is_running(holder_pid(ref)), "the holder goes")


def test_its_processes_are_seen_there(site: Site) -> None:
    ref = start_in(site, f"setsid sleep 1000 &\n{FOREVER}")
    seen = until(lambda: found if (found := see(ref)).members >= 3 else None, "all members are seen")
    assert (seen.leader_live, seen.supervisor_live, seen.holder_live) == (True, True, True)


def test_stop_reaches_what_left_its_group_and_no_neighbour(site: Site) -> None:
    neighbour = start_in(site, FOREVER)
    escaping = "(setsid bash -c 'trap \"\" TERM; sleep 1000 & wait; sleep 1000' &)\n" + FOREVER
    (ref,) = start(replace(plan_in(site, escaping), device_kind="cpu", site=replace(site, leases=site.leases + "-2")))
    until(lambda: see(ref).members >= 4, "all of it runs")
    result = stop(ref, 1)
    assert not result.left
    assert len(result.ended) >= 4
    assert not marked_processes(ref.run_id)
    assert see(ref).state is RunState.STOPPED
    assert see(neighbour).state is RunState.STARTING
    assert see(neighbour).leader_live


def test_stop_names_the_zombies_that_only_a_restart_clears(site: Site) -> None:
    ref = start_in(site, f"(setsid sleep 1000 &)\n{FOREVER}")
    until(lambda: "sleep 1000" in " ".join(command_lines("sleep 1000")), "the orphan runs")
    assert stop(ref, 1).zombies


def test_the_run_survives_its_holder_and_the_docker_command(site: Site) -> None:
    ref = start_in(site, "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done; exit 3\n")
    os.kill(holder_pid(ref), signal.SIGKILL)
    for pid in docker_commands(ref):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not see(ref).holder_live, "the holder is gone")
    assert see(ref).leader_live
    (ref.run_dir / "go").touch()
    assert (ended(ref).state, ended(ref).exit_code) == (RunState.FAILED, 3)


def test_the_holder_stays_when_the_docker_command_is_killed(site: Site) -> None:
    ref = start_in(site, "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done; exit 3\n")
    (pid,) = docker_commands(ref)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid), "it is gone")
    queued = start(plan_in(site, "exit 0\n"))[0]
    assert reaches(queued, RunState.QUEUED).holder_live
    assert see(ref).holder_live
    (ref.run_dir / "go").touch()
    assert ended(ref).exit_code == 3
    assert ended(queued).state is RunState.FINISHED


def docker_commands(ref: RunRef) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"docker", b"exec"] and f"/shared/runs/{ref.run_id}".encode() in words:
            found.append(int(file.parent.name))
    return found


def test_a_killed_supervisor_inside_does_not_end_the_run(site: Site) -> None:
    ref = start_in(site, "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done; exit 4\n")
    inside = state_file(ref, "supervisor").read_text().split()[0]
    assert site.container_id is not None
    _docker(site, "kill", "-9", inside)
    seen = until(lambda: found if not (found := see(ref)).supervisor_live else None, "it is gone")
    assert (seen.state, seen.detail) == (RunState.STARTING, "its supervisor is gone")
    (ref.run_dir / "go").touch()
    assert ended(ref).exit_code == 4


def _docker(site: Site, *command: str) -> None:
    import subprocess

    subprocess.run(["docker", "exec", site.container_id or "", *command], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("end", "detail"),
    [
        (("stop", "-t", "0"), "its container was stopped, which ended it"),
        (("restart", "-t", "0"), "its container was restarted, which ended it"),
        (("rm", "-f"), "its container was removed, which ended it"),
    ],
)
def test_lost_with_its_container(engine: Engine, site: Site, end: tuple[str, ...], detail: str) -> None:
    ref = start_in(site, FOREVER)
    engine.docker(*end, "trainer")
    seen = reaches(ref, RunState.LOST)
    assert seen.detail == detail
    until(lambda: not is_running(holder_pid(ref)), "the holder goes")
    assert see(ref).detail == detail


def test_nobody_is_called_dead_while_docker_does_not_answer(engine: Engine, site: Site) -> None:
    ref = start_in(site, FOREVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        seen = see(ref)
        assert (seen.state, seen.detail) == (RunState.STARTING, "docker does not say whether it still runs")
        with pytest.raises(RlxError, match="docker cannot be asked"):
            stop(ref, 0)
    engine.docker("pause", "trainer")
    assert (see(ref).state, see(ref).detail) == (RunState.STARTING, "its container is paused")
    engine.docker("unpause", "trainer")
    assert see(ref).leader_live


def test_a_container_that_stops_while_the_run_waits(engine: Engine, site: Site) -> None:
    first = start_in(site, FOREVER)
    (second,) = start(plan_in(site, "echo never\n"))
    reaches(second, RunState.QUEUED)
    engine.docker("stop", "-t", "0", "trainer")
    reaches(first, RunState.LOST)
    seen: Observation = ended(second)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 125)
    assert "the container could not be entered" in log_of(second)
    assert "is not running" in log_of(second)


def test_a_waiting_run_can_be_stopped_without_docker(site: Site) -> None:
    start_in(site, FOREVER)
    (second,) = start(plan_in(site, "echo never\n"))
    reaches(second, RunState.QUEUED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        stop(second, 0)
        assert see(second).state is RunState.STOPPED


def test_two_containers_share_the_devices_of_their_host(engine: Engine, site: Site, tmp_path: Path) -> None:
    other = shared(engine, tmp_path, "other")
    first = start_in(site, "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done\n")
    (second,) = start(plan_in(other, "exit 5\n"))
    assert reaches(second, RunState.QUEUED).queued_behind == 1
    (first.run_dir / "go").touch()
    assert ended(second).exit_code == 5


def test_no_tmux_and_other_shells(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.skip("to come")
