"""The rig keeps its promises: what the tests of remote hosts stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rig import Host, Rig
from tests.rig.machine import REPOSITORY


def seconds_of(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_host_has_a_name_a_home_and_processes_of_its_own(rig: Rig) -> None:
    script = (
        "hostname; echo $HOME; id -un; sed -n 's/^NSpid:.*\\t//p' /proc/1/status; echo hello >~/hello; echo x >/tmp/x"
    )
    assert rig.client.run("ssh", "h1", script).stdout == b"h1\n/root\nroot\n1\n"
    h1, h2, _ = rig.hosts
    assert (h1.path("/root/hello").read_text(), h1.path("/tmp/x").read_text()) == ("hello\n", "x\n")
    assert not h2.path("/root/hello").exists()
    assert set(h1.processes().values()) == {"bash", "sshd"}


def test_a_host_cannot_write_to_the_machine_that_runs_the_tests(rig: Rig) -> None:
    refused = rig.client.run("ssh", "h1", f"touch /usr/rig-was-here {REPOSITORY}/rig-was-here", check=False)
    assert refused.stderr.count(b"Read-only file system") == 2


def test_pid_1_of_a_host_reaps_orphans(rig: Rig) -> None:
    host = rig.hosts[0]
    rig.client.run("ssh", "h1", "sh -c 'sleep 0.1 & exec true'; sleep 0.1 & exec true")
    wait_until(lambda: "sleep" not in host.processes().values(), "an orphan stays as a zombie")


def test_hosts_reach_each_other(rig: Rig) -> None:
    banner = rig.client.run("ssh", "h1", "bash -c 'exec 3<>/dev/tcp/h2/22; head -n 1 <&3'").stdout
    assert banner.startswith(b"SSH-2.0-")
    assert rig.client.run("ssh", "-J", "h1", "h2", "hostname; echo $SSH_CONNECTION").stdout.startswith(
        b"h2\n10.77.0.1 "
    )


def test_the_delay_is_there_and_only_there(rig: Rig) -> None:
    def round_trip(name: str) -> float:
        master = ("-o", "ControlPath=/run/%h", "-o", "ControlMaster=auto", "-o", "ControlPersist=yes")
        rig.client.run("ssh", *master, name, "true")
        return min(seconds_of(lambda: rig.client.run("ssh", *master, name, "true")) for _ in range(5))

    base = {name: round_trip(name) for name in ("h1", "h2")}
    rig.host("h1").delay(400)
    # Opening a channel and starting a command are a round trip each.
    assert round_trip("h1") >= base["h1"] / 2 + 0.8
    assert round_trip("h2") < 0.8
    rig.host("h1").delay(0)
    assert round_trip("h1") < 0.8


def test_a_line_can_be_narrow(rig: Rig) -> None:
    rig.host("h1").rate(200_000)
    assert seconds_of(lambda: rig.client.run("ssh", "h1", "head -c 300000 /dev/zero")) >= 1.2


def test_a_cut_cable_loses_nothing_once_it_is_healed(rig: Rig) -> None:
    host = rig.hosts[0]
    with rig.client.popen("ssh", "h1", "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"before\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"before\n"
        host.cut()
        process.stdin.write(b"meanwhile\n")
        process.stdin.flush()
        new = rig.client.run("ssh", "-o", "ConnectTimeout=1", "h1", "true", check=False)
        assert b"Connection timed out" in new.stderr
        assert rig.client.run("ssh", "h2", "hostname").stdout == b"h2\n"
        host.heal()
        assert process.stdout.readline() == b"meanwhile\n"
        process.stdin.close()
        assert process.wait() == 0


def test_a_reboot_ends_all_processes_and_keeps_the_files(rig: Rig) -> None:
    host = rig.hosts[0]
    rig.client.run("ssh", "h1", "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo kept >/srv/file")
    assert "sleep" in host.processes().values()
    host.reboot()
    assert "sleep" not in host.processes().values()
    assert rig.client.run("ssh", "h1", "cat /srv/file").stdout == b"kept\n"


def test_a_restarted_sshd_keeps_its_connections_and_a_stopped_one_does_not(rig: Rig) -> None:
    host = rig.hosts[0]
    with rig.client.popen("ssh", "h1", "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"one\n"
        host.restart_sshd()
        process.stdin.write(b"two\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"two\n"
        host.stop_sshd()
        assert process.wait() == 255
    assert b"refused" in rig.client.run("ssh", "h1", "true", check=False).stderr
    host.start_sshd()
    rig.client.run("ssh", "h1", "true")


def test_a_changed_host_key_is_refused(rig: Rig) -> None:
    rig.hosts[0].change_host_key()
    refused = rig.client.run("ssh", "h1", "true", check=False)
    assert refused.returncode == 255
    assert b"REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr


def test_users_can_be_added_and_denied(rig: Rig) -> None:
    host = rig.hosts[0]
    host.add_user("ada", 2001)
    assert rig.client.run("ssh", "ada@h1", "id -un; pwd").stdout == b"ada\n/home/ada\n"
    assert rig.client.run("ssh", "ada@h1", "cat /root/.ssh/authorized_keys", check=False).returncode == 1
    host.configure_sshd("DenyUsers ada")
    assert b"Permission denied" in rig.client.run("ssh", "-o", "BatchMode=yes", "ada@h1", "true", check=False).stderr
    rig.client.run("ssh", "h1", "true")


def test_functions_of_this_process_can_be_called_as_the_client(rig: Rig) -> None:
    def hostname() -> bytes:
        return subprocess.run(["ssh", "h2", "hostname"], capture_output=True, check=True).stdout

    assert rig.client.call(hostname) == b"h2\n"
    network = Path("/proc/thread-self/ns/net")
    assert rig.client.call(lambda: os.readlink(network)) != os.readlink(network)


@pytest.fixture
def engine_host(docker_rig: Rig) -> Host:
    return docker_rig.hosts[0]


def test_each_host_has_a_docker_of_its_own(docker_rig: Rig, engine_host: Host) -> None:
    engine_host.docker.container("rl")
    listed = {
        name: docker_rig.client.run("ssh", name, "docker ps --format '{{.Names}}'").stdout for name in ("h1", "h2")
    }
    assert listed == {"h1": b"rl\n", "h2": b""}


def test_a_container_sees_its_mounts_devices_and_python(engine_host: Host) -> None:
    engine_host.add_devices("davinci0", "davinci_manager")
    engine_host.play_npu_smi("a3-ascend910-busy", {"118204": "77"})
    rl = engine_host.docker.container("rl", {"/srv": "/data"}, devices=["/dev/davinci0"], python=True)
    rl.run("sh", "-c", "echo from inside >/data/file; test -c /dev/davinci0; test ! -e /dev/davinci_manager")
    assert engine_host.path("/srv/file").read_text() == "from inside\n"
    assert rl.run("python", "-c", "import yaml, sys; print(sys.prefix)").stdout.decode().strip() == sys.prefix
    shown = rl.run("npu-smi", "info").stdout.decode()
    assert "| 77            | VLLMEngineCor" in shown
    assert rl.run("cat", "/tmp/npu-smi.calls").stdout == b"info\n"


def test_a_container_has_loopback_and_nothing_else(engine_host: Host) -> None:
    rl = engine_host.docker.container("rl")
    assert rl.run("bash", "-c", "sed 1,2d /proc/net/dev | cut -d: -f1").stdout.split() == [b"lo"]
    listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    engine_host.docker.container("py", python=True).run("python", "-c", listen)


def test_containers_end_with_a_stop_and_run_on_under_a_dead_engine(engine_host: Host) -> None:
    rl = engine_host.docker.container("rl")
    rl.restart()
    rl.run("true")
    engine_host.docker.kill()
    assert "sleep" in engine_host.processes().values()
    assert b"Cannot connect" in rl.run("true", check=False).stderr
    engine_host.docker.start()
    rl.start()
    rl.stop()
    assert b"is not running" in rl.run("true", check=False).stderr
    rl.remove()
    assert engine_host.run("docker", "ps", "--all", "--quiet").stdout == b""


def test_docker_refuses_who_is_not_in_its_group(docker_rig: Rig, engine_host: Host) -> None:
    engine_host.add_user("ada", 2001)
    engine_host.add_user("bob", 2002, docker=True)
    refused = docker_rig.client.run("ssh", "ada@h1", "docker ps", check=False)
    assert (refused.returncode, b"permission denied" in refused.stderr) == (1, True)
    docker_rig.client.run("ssh", "bob@h1", "docker ps")


def test_a_reboot_ends_the_engine_and_its_containers(docker_rig: Rig, engine_host: Host) -> None:
    engine_host.docker.container("rl")
    engine_host.reboot()
    assert set(engine_host.processes().values()) == {"bash", "sshd"}
    assert docker_rig.client.run("ssh", "h1", "docker ps", check=False).returncode == 1
    assert engine_host.docker
    docker_rig.client.run("ssh", "h1", "docker start rl && docker exec rl true")


def test_a_player_of_a_dead_driver_fails_as_the_driver_does(rig: Rig) -> None:
    host = rig.hosts[0]
    assert rig.client.run("ssh", "h1", "npu-smi info", check=False).returncode == 127
    host.play_npu_smi("driver-down")
    failed = rig.client.run("ssh", "h1", "npu-smi info", check=False)
    assert (failed.returncode, b"ret is -8005" in failed.stdout) == (1, True)
    host.play_npu_smi("310p3")
    assert rig.client.run("ssh", "h1", "npu-smi info").stdout.count(b"310P3") == 4


def traces(folder: Path) -> list[str]:
    """All that a rig may leave: files, control groups, mounts, and processes that name its folder or see its network."""
    found = [str(path) for path in (folder, *Path("/sys/fs/cgroup").glob(f"**/{folder.name}")) if path.exists()]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if folder.name in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder.name in f"{(process / 'cmdline').read_text()} {(process / 'mounts').read_text()}":
                found.append(f"{process.name}: {(process / 'comm').read_text()}")
        except OSError:
            continue
    return found


@pytest.fixture
def busy_rig(docker_rig: Rig) -> Iterator[Rig]:
    docker_rig.hosts[0].docker.container("rl").run("sh", "-c", "sleep 1000 >/dev/null 2>&1 &")
    master = ("-o", "ControlPath=/run/%h", "-o", "ControlMaster=auto", "-o", "ControlPersist=yes")
    docker_rig.client.run("ssh", *master, "h1", "true")
    yield docker_rig


def test_nothing_is_left_behind(busy_rig: Rig) -> None:
    assert traces(busy_rig.folder)
    interfaces = Path("/proc/net/dev").read_text().count(":")
    busy_rig.close()
    assert traces(busy_rig.folder) == []
    assert Path("/proc/net/dev").read_text().count(":") == interfaces


def test_nothing_is_left_behind_when_the_owner_is_killed(rig: Rig) -> None:
    script = """
import sys, time
from tests.rig import Rig
rig = Rig(1)
rig.client.popen("ssh", "-N", "h1")
print(rig.folder, flush=True)
time.sleep(1000)
"""
    owner = subprocess.Popen([sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert owner.stdout
    folder = Path(owner.stdout.readline().strip())
    assert traces(folder)
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    wait_until(lambda: not traces(folder), "a killed owner leaves something")
