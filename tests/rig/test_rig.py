"""The rig keeps its promises: what the tests of remote hosts stand on."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.rig import Rig
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
    assert (h1.path("/root/hello").read_text(encoding="utf-8"), h1.path("/tmp/x").read_text(encoding="utf-8")) == (
        "hello\n",
        "x\n",
    )
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

    rig.host("h1").delay(400)
    delayed = round_trip("h1")
    assert delayed >= 0.8  # opening a channel and starting a command are a round trip each
    assert round_trip("h2") < delayed
    rig.host("h1").delay(0)
    assert round_trip("h1") < delayed


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
    wait_until(lambda: "sleep" in host.processes().values(), "nothing started")
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
    assert rig.client.call(network.readlink) != network.readlink()


def test_a_player_of_a_dead_driver_fails_as_the_driver_does(rig: Rig) -> None:
    host = rig.hosts[0]
    assert rig.client.run("ssh", "h1", "npu-smi info", check=False).returncode == 127
    host.play_npu_smi("driver-down")
    failed = rig.client.run("ssh", "h1", "npu-smi info", check=False)
    assert (failed.returncode, b"ret is -8005" in failed.stdout) == (1, True)
    host.play_npu_smi("310p3")
    assert rig.client.run("ssh", "h1", "npu-smi info").stdout.count(b"310P3") == 4


def test_a_host_can_lack_what_others_have(rig: Rig) -> None:
    host = rig.hosts[0]
    host.remove_program("tmux")
    host.replace_program("sh", "busybox")
    host.limit_disk("/srv", 65536)
    host.shift_clock("+1d")
    ask = rig.client.run
    assert ask("ssh", "h1", "command -v tmux", check=False).returncode != 0
    assert b"BusyBox" in ask("ssh", "h1", "sh --help 2>&1", check=False).stdout
    assert b"No space left" in ask("ssh", "h1", "head -c 100000 /dev/zero >/srv/file", check=False).stderr
    clocks = [int(ask("ssh", name, "date +%s").stdout) for name in ("h1", "h2")]
    assert clocks[0] - clocks[1] > 80_000
    ask("ssh", "h2", "command -v tmux; head -c 100000 /dev/zero >/srv/file")
