"""A container that cannot be entered says why, and how to mend it."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import ExitCode, UsageError
from rlx.hosts import transport_for
from rlx.hosts.host_errors import ContainerGone
from rlx.model import LOCAL, Cmd
from tests.engine import Engine
from tests.loopback import Loopback, loopback
from tests.wording import settled

__all__ = ["loopback"]

NAME = f"entered-{os.getpid()}"
INSIDE = replace(LOCAL, inside=NAME)


@pytest.fixture
def container(engine: Engine) -> Engine:
    engine.run_container(NAME, options=("-e", "ASCEND_HOME=/usr/local/Ascend"))
    return engine


def refused() -> ContainerGone:
    with pytest.raises(ContainerGone) as caught:
        transport_for(INSIDE).run(Cmd("echo", "hello"), timeout_s=30)
    assert caught.value.exit_code is ExitCode.UNREACHABLE
    assert caught.value.hint
    return caught.value


def test_the_containers_own_environment_is_kept(container: Engine) -> None:
    assert transport_for(INSIDE).run(Cmd("sh", "-c", "echo $ASCEND_HOME"), timeout_s=30).out == b"/usr/local/Ascend\n"


def test_a_stopped_container_and_none_at_all(container: Engine, wording: SnapshotAssertion) -> None:
    container.docker("kill", NAME)
    assert f"docker start {NAME}" in refused().hint
    container.docker("rm", NAME)
    gone = refused()
    assert not gone.arrived and NAME in gone.message and settled(gone.hint, {NAME: "container"}) == wording
    container.run_container(NAME)
    assert transport_for(INSIDE).run(Cmd("echo", "back"), timeout_s=30).out == b"back\n"


def test_a_paused_container(container: Engine) -> None:
    container.docker("pause", NAME)
    try:
        assert f"docker unpause {NAME}" in refused().hint
    finally:
        container.docker("unpause", NAME)


def test_a_container_that_stops_meanwhile_is_no_end(container: Engine, wording: SnapshotAssertion) -> None:
    with transport_for(INSIDE).stream(Cmd("sh", "-c", "echo begun; sleep 500")) as chunks:
        assert next(chunks) == b"begun\n"
        container.docker("kill", NAME)
        with pytest.raises(ContainerGone, match=NAME) as caught:
            list(chunks)
    assert caught.value.arrived and settled(caught.value.message, {NAME: "container"}) == wording


def test_no_daemon(monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    error = refused()
    assert "unix:///nonexistent/docker.sock" in error.message and error.hint == wording


def test_a_host_without_docker(loopback: Loopback, wording: SnapshotAssertion) -> None:
    loopback.write_bashrc("PATH=/nonexistent")
    with pytest.raises(ContainerGone, match="docker") as caught:
        transport_for(replace(loopback.place, inside=NAME)).run(Cmd("true"), timeout_s=30)
    assert settled(caught.value.hint, {NAME: "container"}) == wording


def test_what_is_no_name_of_a_container() -> None:
    for name in ("a b", "-it", "x;reboot", "$(id)"):
        with pytest.raises(UsageError, match=re.escape(repr(name))):
            transport_for(replace(LOCAL, inside=name))
