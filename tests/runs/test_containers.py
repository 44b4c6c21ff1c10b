"""Runs inside a container: what is alive there, what is dead, and what nobody can tell."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.hosts import local_site, locate, user_file
from rlx.model import LaunchPlan, RunState, Site
from rlx.runs import Index, Observation, RunRef, query_leases, stop, take_snapshots
from tests.cli.support import rlx
from tests.conftest import stop_runs_below
from tests.engine import IMAGE, Engine
from tests.loopback import Loopback
from tests.runs.test_hosts_of_all_kinds import TOOLS
from tests.runs.toys import (
    FOREVER,
    command_line,
    command_lines,
    ended,
    holder_pid,
    home,
    is_running,
    log_of,
    logged_pid,
    marked_processes,
    reaches,
    see,
    start,
    state_file,
    toy_plan,
    until,
)
from tests.wording import settled


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


@pytest.mark.contract
def test_runs_inside_and_tells_how_it_ended(site: Site) -> None:
    ref = start_in(site, "hostname; echo $RLX_RUN_DIR $RLX_DEVICES; umask; exit 7\n")
    seen = ended(ref)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 7)
    assert site.container_id is not None
    words = log_of(ref).split()
    assert words[1:4] == [site.container_id[:12], f"/shared/runs/{ref.run_id}", "0"]
    until(lambda: not is_running(holder_pid(ref)), "the holder goes")


def test_this_machine_makes_one_of_an_image(engine: Engine, tmp_path: Path) -> None:
    """As on an NPU server, by somebody who is logged in there."""
    user_file().parent.mkdir(exist_ok=True)
    user_file().write_text(
        f'hosts: {{local: {{image: {{name: {IMAGE}, mounts: ["/usr:/usr:ro"]}}}}}}', encoding="utf-8"
    )
    name = rlx("hosts", "start", "local").stdout.strip()
    assert engine.docker("ps", "--format", "{{.Names}} {{.Image}}").split() == [name, IMAGE]
    site, warnings = locate(local_site())
    assert (site.container, warnings) == (name, ()) and site.container_root == site.root == str(tmp_path / "root")
    (ref,) = start(plan_in(site, "echo $RLX_RUN_DIR; exit 7\n"))
    assert ended(ref).exit_code == 7 and f"{tmp_path}/root/runs/{ref.run_id}" in log_of(ref)
    stop_runs_below(tmp_path / "root" / "runs")


def test_runs_of_a_stopped_container_are_found_through_the_host(
    site: Site, engine: Engine, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    """A second laptop, whose index knows none of them."""
    ref = start_in(site, FOREVER)
    user_file().parent.mkdir(exist_ok=True)
    user_file().write_text("hosts: {local: {container: trainer}}", encoding="utf-8")
    engine.docker("stop", "-t", "0", "trainer")
    (home() / "index.db").rename(tmp_path / "index.db")
    done = rlx("status", "--host", "local", "--verbose")
    assert ref.run_id in done.stdout and "lost" in done.stdout
    (row,) = json.loads(rlx("status", "--host", "local", "--json").stdout)["runs"]
    assert (row["state"], row["detail"]) == ("lost", wording)
    assert "exited" in done.stderr


def test_its_processes_are_seen_there(site: Site) -> None:
    ref = start_in(site, f"setsid sleep 1000 &\n{FOREVER}")
    seen = until(lambda: found if (found := see(ref)).members >= 3 else None, "all members are seen")
    assert (seen.leader_live, seen.supervisor_live, seen.holder_live) == (True, True, True)


def test_stop_reaches_what_left_its_group_and_no_neighbour(site: Site) -> None:
    neighbour = start_in(site, FOREVER)
    escaping = "(setsid bash -c 'trap \"\" TERM; sleep 1000 & echo escaped $$; wait; sleep 1000' &)\n" + FOREVER
    (ref,) = start(replace(plan_in(site, escaping), device_kind="cpu", site=replace(site, leases=site.leases + "-2")))
    escaped = logged_pid(ref, "escaped")
    result = stop(ref, 1)
    assert not result.left
    assert escaped in result.ended and len(result.ended) >= 4
    assert not marked_processes(ref.run_id)
    assert see(ref).state is RunState.STOPPED
    assert see(neighbour).state is RunState.STARTING
    assert see(neighbour).leader_live


def test_stop_names_the_zombies_that_only_a_restart_clears(site: Site) -> None:
    ref = start_in(site, f"(setsid sleep 1000 &)\n{FOREVER}")
    until(lambda: "sleep 1000 " in map(command_line, marked_processes(ref.run_id)), "the orphan runs")
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


def test_a_killed_supervisor_inside_does_not_end_the_run(site: Site, wording: SnapshotAssertion) -> None:
    ref = start_in(site, "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done; exit 4\n")
    inside = state_file(ref, "supervisor").read_text(encoding="utf-8").split()[0]
    assert site.container_id is not None
    _docker(site, "kill", "-9", inside)
    seen = until(lambda: found if not (found := see(ref)).supervisor_live else None, "it is gone")
    assert (seen.state, seen.detail) == (RunState.STARTING, wording)
    (ref.run_dir / "go").touch()
    assert ended(ref).exit_code == 4


@pytest.mark.parametrize("victims", [("leader",), ("supervisor", "leader")])
def test_a_killed_leader_inside(site: Site, victims: tuple[str, ...], wording: SnapshotAssertion) -> None:
    ref = start_in(site, FOREVER)
    for victim in victims:
        _docker(site, "kill", "-9", state_file(ref, victim).read_text(encoding="utf-8").split()[0])
    seen = ended(ref)
    if victims == ("leader",):
        assert (seen.state, seen.exit_code) == (RunState.FAILED, 137)
    else:
        assert (seen.state, seen.detail) == (RunState.LOST, wording)
    assert not marked_processes(ref.run_id)


def test_everybody_can_see_that_the_run_has_its_devices(site: Site) -> None:
    """The claim names the supervisor as the host sees it: whoever may not use docker can still tell that it lives."""
    ref = start_in(site, FOREVER)
    claim = Path(os.environ["RLX_LEASES"], "devices", "cpu.0", str(os.getuid()))
    until(
        lambda: int(claim.read_text(encoding="utf-8").split()[0]) != holder_pid(ref),
        "the claim passes to the supervisor",
    )
    pid = int(claim.read_text(encoding="utf-8").split()[0])
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    assert words[2:5] == [b"inside", b"run", f"/shared/runs/{ref.run_id}".encode()]


def test_a_full_disk_hides_no_end(engine: Engine, tmp_path: Path) -> None:
    # In memory, which only `locate` refuses: no other disk is small enough to fill here.
    disk = tmp_path / "root"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "small", disk], check=True)
    try:
        ref = start_in(shared(engine, tmp_path, "trainer"), "cat /dev/zero >$RLX_RUN_DIR/big 2>/dev/null; exit 9\n")
        assert (ended(ref).state, ended(ref).exit_code) == (RunState.FAILED, 9)
        until(lambda: not is_running(holder_pid(ref)), "the holder goes")
    finally:
        engine.docker("rm", "-f", "trainer")
        subprocess.run(["umount", "-l", disk], check=True)


def _docker(site: Site, *command: str) -> None:
    subprocess.run(["docker", "exec", site.container_id or "", *command], check=True, capture_output=True)


@pytest.mark.parametrize(
    "end", [("stop", "-t", "0"), ("restart", "-t", "0"), ("rm", "-f")], ids=["stopped", "restarted", "removed"]
)
def test_lost_with_its_container(engine: Engine, site: Site, end: tuple[str, ...], wording: SnapshotAssertion) -> None:
    ref = start_in(site, FOREVER)
    engine.docker(*end, "trainer")
    seen = reaches(ref, RunState.LOST)
    assert seen.detail == wording
    until(lambda: not is_running(holder_pid(ref)), "the holder goes")
    assert see(ref).detail == seen.detail


def test_nobody_is_called_dead_while_docker_does_not_answer(
    engine: Engine, site: Site, wording: SnapshotAssertion
) -> None:
    ref = start_in(site, FOREVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
        seen = see(ref)
        assert (seen.state, seen.detail) == (RunState.STARTING, wording)
        with pytest.raises(RlxError, match="docker"):
            stop(ref, 0)
    engine.docker("pause", "trainer")
    assert (see(ref).state, see(ref).detail) == (RunState.STARTING, wording)
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
    # What docker says of it.
    assert log_of(second).startswith("rlx: ") and "is not running" in log_of(second)


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


def test_a_daemon_that_dies_and_comes_back(engine: Engine, site: Site, wording: SnapshotAssertion) -> None:
    ref = start_in(site, FOREVER)
    engine.kill_daemon()
    try:
        assert (see(ref).state, see(ref).detail) == (RunState.STARTING, wording)
        assert see(ref).holder_live
    finally:
        # Without live-restore, a new daemon ends the containers of the old one.
        engine.start()
    assert reaches(ref, RunState.LOST).detail == wording
    until(lambda: not is_running(holder_pid(ref)), "the holder goes")


def test_a_daemon_that_hangs(engine: Engine, site: Site, wording: SnapshotAssertion) -> None:
    ref = start_in(site, FOREVER)
    (waiting,) = start(toy_plan("true"))
    engine.freeze()
    try:
        seen = take_snapshots(Index(home()), [ref, waiting])
        assert (seen[ref.run_id].state, seen[ref.run_id].observation.detail) == (RunState.STARTING, wording)
        assert seen[waiting.run_id].state is RunState.QUEUED
    finally:
        engine.thaw()
    assert see(ref).leader_live


@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_other_shells_and_no_tmux(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in {*TOOLS.split(), "timeout", "sed", "flock", "docker", "bash", "xargs", "sha256sum"}:
        (programs / tool).symlink_to(str(shutil.which(tool)))
    (programs / "sh").unlink()
    (programs / "sh").symlink_to(str(shutil.which(shell)))
    monkeypatch.setenv("PATH", str(programs))
    own_sh = ("-v", f"{shutil.which(shell)}:/tools/sh:ro", "-e", "PATH=/tools:/usr/bin:/bin")
    site = shared(engine, tmp_path, "trainer", options=own_sh)
    ref = start_in(site, f"(setsid sleep 1000 &)\n{FOREVER}")
    until(lambda: see(ref).members >= 3, "all of it is seen")
    assert stop(ref, 1).left == ()
    assert ended(ref).state is RunState.STOPPED
    assert ended(start_in(site, "exit 7\n")).exit_code == 7


def test_secrets_are_read_inside_and_gone(site: Site) -> None:
    plan = replace(plan_in(site, 'echo "length ${#TOKEN}"\n' + FOREVER), secrets=("TOKEN",))
    # Never the same: another test that runs beside this one may have its own secret in the text of a program.
    secret = token_hex(8)
    (ref,) = start(plan, secrets={"TOKEN": f"{secret}' value"})
    until(lambda: "length 23" in log_of(ref), "the secret arrives")
    assert not (ref.run_dir / "env").exists()
    assert not command_lines(secret)


def test_a_container_of_another_user_with_the_same_uid(engine: Engine, tmp_path: Path) -> None:
    """What the container writes can be read by the host's user, and by nobody else."""
    site = shared(engine, tmp_path, "trainer", user=str(os.getuid()))
    ref = start_in(site, "mkdir $RLX_RUN_DIR/made; echo x >$RLX_RUN_DIR/made/file; exit 0\n")
    assert ended(ref).state is RunState.FINISHED
    assert (ref.run_dir / "made" / "file").stat().st_mode & 0o777 == 0o644
    assert ref.run_dir.stat().st_mode & 0o777 == 0o700


def test_runs_that_lie_in_the_container(engine: Engine, tmp_path: Path) -> None:
    """No shared folder: holder, leases and files are in there, and the same commands reach them."""
    engine.run_container("trainer", options=("-e", "DECLARED=by-the-image"))
    site, warnings = locate(replace(local_site(), container="trainer", root="/opt/rlx", leases="/var/tmp/leases"))
    assert warnings
    waits = "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done; exit 3\n"
    ref, queued = start(plan_in(site, f'echo "$DECLARED"\n{waits}'), plan_in(site, FOREVER, arm="other"))
    until(lambda: see(ref).leader_live, "the script runs")
    assert reaches(queued, RunState.QUEUED).queued_behind == 1
    assert [lease.run_id for lease in query_leases(site.place, site.leases).held] == [ref.run_id]
    engine.docker("exec", "trainer", "touch", f"{ref.remote_dir}/go")
    assert ended(ref).exit_code == 3
    assert "by-the-image" in engine.docker("exec", "trainer", "cat", f"{ref.remote_dir}/attempts/1/log")
    until(lambda: see(queued).leader_live, "the next one starts")
    assert stop(queued, 1).left == ()
    assert see(queued).state is RunState.STOPPED


@pytest.mark.contract
def test_over_ssh(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(tmp_path / "ssh", engine.environment) as host:
        monkeypatch.setenv("RLX_SSH_CONFIG", str(host.config))
        root = tmp_path / "root"
        root.mkdir()
        engine.run_container("trainer", {root: "/shared"})
        asked = replace(local_site(), place=host.place, container="trainer", root=f"{root}/deep/er", path_prefix=())
        site, _ = locate(asked)
        assert site.container_root == "/shared/deep/er"
        (ref,) = start(plan_in(site, FOREVER))
        until(lambda: see(ref).leader_live, "the script runs")
        assert stop(ref, 1).left == ()
        assert see(ref).state is RunState.STOPPED
        until(lambda: not is_running(holder_pid(ref)), "the holder goes")


def test_one_look_for_many_runs_of_many_containers(engine: Engine, site: Site, tmp_path: Path) -> None:
    other = shared(engine, tmp_path, "other")
    first, second = start_in(site, FOREVER), start_in(replace(other, leases=other.leases + "-2"), FOREVER)
    engine.docker("kill", "other")
    # Its holder still has to see it.
    reaches(second, RunState.LOST)
    seen = take_snapshots(Index(home()), [first, second])
    assert seen[first.run_id].observation.leader_live
    assert seen[second.run_id].state is RunState.LOST


def test_a_container_stopped_in_the_middle_of_a_stop_leaves_the_truth(engine: Engine, site: Site) -> None:
    ref = start_in(site, FOREVER)
    engine.docker("stop", "-t", "0", "trainer")
    result = stop(ref, 0)
    assert (result.ended, result.left) == ((), ())
    # Its holder still has to see it.
    reaches(ref, RunState.LOST)


def test_a_host_without_a_timeout_command(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a small busybox."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name != "timeout":
            (programs / tool.name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(programs))
    (tmp_path / "root").mkdir()
    engine.run_container("trainer", {tmp_path / "root": "/shared"})
    site, _ = locate(replace(local_site(), container="trainer", path_prefix=()))
    assert site.container_root == "/shared"
    ref = start_in(site, "exit 7\n")
    assert ended(ref).exit_code == 7


def test_another_attempt_begins_in_the_same_container(site: Site, engine: Engine, wording: SnapshotAssertion) -> None:
    script = 'echo "$RLX_ATTEMPT_DIR from $RLX_RESUME_FROM"; [ "${RLX_ATTEMPT_DIR##*/}" = 2 ] || exit 7\n'
    ref, other = start_in(site, script), start_in(site, "exit 7\n")
    assert (ended(ref).exit_code, ended(other).exit_code) == (7, 7)
    engine.docker("stop", "-t", "0", "trainer")
    refused = rlx("retry", ref.run_id, code=1)
    assert "(docker: exited)" in refused.stderr
    assert settled(refused.stderr, {ref.run_id: "run"}) == wording
    assert not (ref.run_dir / "attempts/2").exists()
    engine.docker("start", "trainer")
    rlx("retry", ref.run_id)
    seen = ended(ref)
    assert (seen.state, seen.attempt) == (RunState.FINISHED, 2)
    assert f"/shared/runs/{ref.run_id}/attempts/2 from none" in log_of(ref)
    engine.docker("rm", "-f", "trainer")
    refused = rlx("retry", other.run_id, code=1)
    assert settled(refused.stderr, {other.run_id: "run"}) == wording
