"""What goes wrong between rlx and a host, and what rlx then says, with real cables, keys and servers."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from rlx.hosts import Completed, transport_for
from rlx.hosts.host_errors import (
    AccessDenied,
    ConnectionLost,
    HostKeyChanged,
    HostKeyUnknown,
    TimedOut,
    Unreachable,
)
from rlx.model import Cmd, Place
from tests.rig import Client, Rig
from tests.runs.toys import is_running, until

HOSTNAME = Cmd("hostname")


class User:
    """Somebody at the client who has rlx run commands."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def run(self, destination: str, cmd: Cmd = HOSTNAME, timeout_s: float = 60) -> Completed:
        transport = transport_for(Place(destination, destination, "openssh"))
        return self.client.call(lambda: transport.run(cmd, timeout_s=timeout_s))

    def name_of(self, destination: str) -> str:
        return self.run(destination).out.decode().strip()

    def follow(self, destination: str, cmd: Cmd, when_first: Callable[[], object]) -> bytes:
        """All of a stream; `when_first` is called as soon as there is something."""

        def follow() -> bytes:
            with transport_for(Place(destination, destination, "openssh")).stream(cmd) as chunks:
                first = next(chunks)
                when_first()
                return first + b"".join(chunks)

        return self.client.call(follow)

    def add_config(self, text: str) -> None:
        """What ssh reads first of all."""
        config = self.client.ssh_folder / "config"
        config.write_text(text + config.read_text(encoding="utf-8"), encoding="utf-8")

    def master(self) -> int:
        """The pid of the ssh that holds the only shared connection."""
        (socket,) = [path for path in Path(self.client.path("/tmp")).glob("rlx-ssh-*/*") if path.is_socket()]
        inside = f"/tmp/{socket.parent.name}/{socket.name}"
        said = self.client.run("ssh", "-O", "check", "-o", f"ControlPath={inside}", "any").stderr.decode()
        return int(re.search(r"pid=(\d+)", said)[1])  # type: ignore[index]


@pytest.fixture
def user(rig: Rig) -> User:
    return User(rig.client)


@pytest.fixture
def connected(user: User) -> User:
    assert user.name_of("h1") == "h1"
    return user


def test_a_wrong_user_is_refused_with_the_way_to_look(user: User) -> None:
    with pytest.raises(AccessDenied, match="nobody@h1") as caught:
        user.run("nobody@h1")
    assert "ssh nobody@h1" in caught.value.hint
    assert not caught.value.arrived


def test_a_user_who_is_no_longer_let_in_is_told(rig: Rig, user: User) -> None:
    rig.host("h1").configure_sshd("DenyUsers root")
    with pytest.raises(AccessDenied):
        user.run("h1")
    assert user.name_of("h2") == "h2"


def test_a_changed_host_key_is_refused_until_the_hint_is_followed(rig: Rig, user: User) -> None:
    rig.host("h1").change_host_key()
    with pytest.raises(HostKeyChanged, match="h1") as caught:
        user.run("h1")
    assert not caught.value.arrived
    fix = re.search(r"ssh-keygen [^;]*", caught.value.hint)
    assert fix
    rig.client.run("sh", "-c", fix.group())
    with pytest.raises(HostKeyUnknown) as unknown:
        user.run("h1")
    assert "ssh h1" in unknown.value.hint
    rig.client.run("ssh", "-o", "StrictHostKeyChecking=accept-new", "h1", "true")  # as by hand, after a look at it
    assert user.name_of("h1") == "h1"


def test_an_unknown_host_key_is_not_taken_on_trust(rig: Rig, user: User) -> None:
    known = rig.client.ssh_folder / "known_hosts"
    known.write_text("", encoding="utf-8")
    with pytest.raises(HostKeyUnknown):
        user.run("h1")
    assert known.read_text(encoding="utf-8") == ""


def test_a_cut_cable_is_unreachable(rig: Rig, user: User) -> None:
    rig.host("h1").cut()
    with pytest.raises(Unreachable, match="h1") as caught:
        user.run("h1")
    assert not caught.value.arrived
    rig.host("h1").heal()
    assert user.name_of("h1") == "h1"


def test_a_cut_cable_does_not_hold_a_command_longer_than_it_may_take(rig: Rig, connected: User) -> None:
    rig.host("h1").cut()
    with pytest.raises(TimedOut, match="h1") as caught:
        connected.run("h1", timeout_s=1)
    assert caught.value.arrived


def test_a_short_cut_is_not_noticed(rig: Rig, connected: User) -> None:
    host = rig.host("h1")

    def cut_and_heal() -> None:
        host.cut()
        rig.client.run("sleep", "1")
        host.heal()

    out = connected.follow("h1", Cmd("sh", "-c", "echo one; sleep 0.5; echo two; sleep 1; echo three"), cut_and_heal)
    assert out == b"one\ntwo\nthree\n"


def test_a_dead_peer_is_noticed_by_a_quiet_stream_and_by_a_command(rig: Rig, connected: User) -> None:
    host = rig.host("h1")
    with ThreadPoolExecutor(1) as meanwhile:
        asked: list[Future[Completed]] = []

        def cut_and_ask() -> None:
            host.cut()
            asked.append(meanwhile.submit(connected.run, "h1", timeout_s=300))

        with pytest.raises(ConnectionLost, match="h1") as caught:
            connected.follow("h1", Cmd("sh", "-c", "echo one; sleep 1000"), cut_and_ask)
        assert caught.value.arrived
        with pytest.raises((ConnectionLost, Unreachable), match="h1"):
            asked[0].result()
    host.heal()
    assert connected.name_of("h1") == "h1"


def test_a_killed_shared_connection_is_made_anew(connected: User) -> None:
    killed = connected.master()
    os.kill(killed, signal.SIGKILL)
    # One that is about to end would still take a command, and lose it: that is the next case.
    until(lambda: not is_running(killed), "it has ended")
    assert connected.name_of("h1") == "h1"
    assert connected.master() != killed


def test_a_shared_connection_that_is_killed_under_a_command_is_a_lost_one(connected: User) -> None:
    def kill_all_of_ssh() -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # gone
                if connected.client.owns(process) and (process / "comm").read_text(encoding="utf-8") == "ssh\n":
                    os.kill(int(process.name), signal.SIGKILL)

    with pytest.raises(ConnectionLost):
        connected.follow("h1", Cmd("sh", "-c", "echo one; sleep 1000"), kill_all_of_ssh)
    assert connected.name_of("h1") == "h1"


def test_a_restarted_sshd_is_not_noticed_and_a_stopped_one_is(rig: Rig, connected: User) -> None:
    host = rig.host("h1")
    assert connected.follow("h1", Cmd("sh", "-c", "echo one; sleep 0.5; echo two"), host.restart_sshd) == b"one\ntwo\n"
    with pytest.raises(ConnectionLost):
        connected.follow("h1", Cmd("sh", "-c", "echo one; sleep 1000"), host.stop_sshd)
    with pytest.raises(Unreachable, match="h1") as caught:
        connected.run("h1")
    assert not caught.value.arrived
    host.start_sshd()
    assert connected.name_of("h1") == "h1"


def test_a_command_that_nobody_waits_for_any_more_is_ended(rig: Rig, connected: User) -> None:
    with pytest.raises(TimedOut):
        connected.run("h1", Cmd("sleep", "1000"), timeout_s=1)
    script = "while pgrep -x sleep >/dev/null; do :; done"
    rig.host("h1").run("timeout", "30", "sh", "-c", script)


def test_a_rebooted_host_is_reached_again(rig: Rig, connected: User) -> None:
    rig.host("h1").reboot()
    assert connected.name_of("h1") == "h1"


def test_a_host_behind_another(rig: Rig, user: User) -> None:
    user.add_config("Host inner\n  HostName 10.77.0.2\n  User root\n  ProxyJump h1\n")
    rig.host("h2").configure_sshd("AllowUsers *@10.77.0.1")
    with pytest.raises(AccessDenied):
        user.run("h2")
    assert user.name_of("inner") == "h2"
    rig.host("h1").stop_sshd()
    with pytest.raises((Unreachable, ConnectionLost), match="inner"):
        user.run("inner")


def test_include_and_match_of_the_ssh_config_hold(rig: Rig, user: User) -> None:
    rig.host("h3").add_user("ada", 2001)
    folder = user.client.ssh_folder / "conf.d"
    folder.mkdir()
    (folder / "npu.conf").write_text(
        'Match originalhost npu-host-1 exec "test -d /root/.ssh"\n  HostName 10.77.0.3\n  User ada\n', encoding="utf-8"
    )
    user.add_config("Include conf.d/*.conf\n")
    assert user.run("npu-host-1", Cmd("sh", "-c", "hostname; id -un")).out == b"h3\nada\n"
