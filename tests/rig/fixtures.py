"""The rig as pytest fixtures. A test that cannot have it is skipped with the reason, and fails where CI=true."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.rig.capabilities import RigUnavailable, require_rig
from tests.rig.docker import Container
from tests.rig.rig import Rig
from tests.rig.slurm import Cluster, cluster
from tests.rig.switch import compile_switch


@pytest.fixture(scope="session")
def rig_switch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        require_rig()
        return compile_switch(tmp_path_factory.mktemp("rig"))
    except RigUnavailable as reason:
        leave_out(reason)


@pytest.fixture
def new_rig(
    rig_switch: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], Rig]]:
    """Makes rigs of any number of hosts; each test has its own, since a used one is never quite like a new one."""
    # The client has an ssh configuration where every user has it.
    monkeypatch.delenv("RLX_SSH_CONFIG", raising=False)
    with ExitStack() as rigs:

        def start(count: int) -> Rig:
            try:
                return rigs.enter_context(Rig(count, rig_switch, [tmp_path_factory.getbasetemp()]))
            except RigUnavailable as reason:
                leave_out(reason)

        yield start


@pytest.fixture(scope="module")
def new_cluster(rig_switch: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """Starts a Slurm with so many nodes, and the options of `cluster`; it is for all tests of a module."""
    with ExitStack() as clusters:

        def start(count: int, **options: Any) -> Cluster:
            try:
                return clusters.enter_context(cluster(count, rig_switch, [tmp_path_factory.getbasetemp()], **options))
            except RigUnavailable as reason:
                leave_out(reason)

        yield start


@pytest.fixture
def rig(new_rig: Callable[[int], Rig]) -> Rig:
    """A client and the hosts h1, h2, h3."""
    return new_rig(3)


@pytest.fixture
def docker_rig(new_rig: Callable[[int], Rig]) -> Rig:
    """A client and the hosts h1, h2, each with a Docker Engine of its own."""
    rig = new_rig(2)
    try:
        for host in rig.hosts:
            _ = host.docker
    except RigUnavailable as reason:
        leave_out(reason)
    return rig


@pytest.fixture
def container(docker_rig: Rig) -> Container:
    """A running container `rl` on h1 with the tests' own Python; h1's /srv is its /data."""
    return docker_rig.host("h1").docker.container("rl", {"/srv": "/data"}, python=True)


def leave_out(reason: RigUnavailable) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"the rig must work in CI: {reason}", pytrace=False)
    pytest.skip(f"no rig: {reason}")
