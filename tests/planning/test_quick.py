"""The one look before a launch into a container: with a real Docker Engine, on this machine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.hosts import LocalTransport, local_site, locate
from rlx.hosts.host_errors import ContainerGone
from rlx.model import Site
from rlx.planning.host_query import query_host
from rlx.planning.host_requirements import HostRequirements
from tests.engine import Engine


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder that is no tmpfs, whatever pytest's own folder lies on."""
    folder = Path(tempfile.mkdtemp(prefix="rlx-shared-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


def site_with(root: str) -> Site:
    return replace(local_site(), root=root, container="trainer")


def test_container_and_room_come_in_one_answer(engine: Engine, disk: Path) -> None:
    container = engine.run_container("trainer", {disk: "/workspace"})
    root = str(disk / "it's rlx")
    seen = query_host(LocalTransport(), site_with(root), HostRequirements())
    results, findings = seen.results, seen.findings
    assert (results.site, seen.warnings) == locate(site_with(root))
    assert results.host.of("container")["id"] == container and results.host.of("tools")["paths"]
    (room,) = results.host.of("disk")["paths"]
    assert room["path"] == root and room["existing"] == str(disk) and room["writable"] and room["free_kib"]
    assert results.inside and set(results.inside.facts) == {"machine", "devices"}
    assert not results.host.silent and not results.inside.silent
    assert results.clock and results.clock.least <= 0 <= results.clock.most
    assert not {finding.id for finding in findings} & {"RLX510", "RLX520", "RLX523", "RLX527"}
    assert not list(disk.rglob(".rlx-probe-*"))


def test_runs_that_will_lie_in_the_container(engine: Engine) -> None:
    container = engine.run_container("trainer", {})
    seen = query_host(LocalTransport(), site_with("/opt/rlx"), HostRequirements())
    results = seen.results
    assert results.site.place.inside == container and len(seen.warnings) == 1
    assert not results.host.of("disk") and not results.host.silent


def test_a_container_that_is_not_there_is_an_error(engine: Engine) -> None:
    engine.run_container("another", {})
    with pytest.raises(ContainerGone, match="trainer"):
        query_host(LocalTransport(), site_with("~/rlx"), HostRequirements())
