"""Finding a container and the folder that it shares with its host: with a real Docker Engine, on this machine."""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.hosts import inspect_container, local_site, locate
from rlx.hosts.host_errors import ContainerGone
from rlx.model import Site
from tests.engine import Engine
from tests.open_clone import run_python
from tests.wording import settled

_USER = 61234


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder that is no tmpfs, whatever pytest's own folder lies on, and that others may enter."""
    folder = Path(tempfile.mkdtemp(prefix="rlx-shared-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def own_home(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = disk / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def site_with(root: str | Path = "~/rlx") -> Site:
    return replace(local_site(), root=str(root), container="trainer")


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".rlx-probe-*"))


def test_a_site_without_a_container_is_left_alone() -> None:
    assert locate(local_site()) == (local_site(), ())


def test_an_explicit_root_below_a_mount(engine: Engine, disk: Path) -> None:
    container = engine.run_container("trainer", {disk: "/workspace"})
    site, warnings = locate(site_with(disk / "some" / "root"))
    assert site.container_id == container
    assert (site.root, site.container_root) == (str(disk / "some" / "root"), "/workspace/some/root")
    assert (site.container, site.place.inside, warnings) == ("trainer", None, ())
    assert not leftovers(disk)


def test_the_innermost_mount_counts(engine: Engine, disk: Path) -> None:
    (disk / "inner").mkdir()
    engine.run_container("trainer", [f"{disk}:/outer", f"{disk}/inner:/elsewhere"])
    assert locate(site_with(disk / "inner" / "rlx"))[0].container_root == "/elsewhere/rlx"


def test_a_symbolic_link_to_the_mount(engine: Engine, disk: Path) -> None:
    (disk / "real").mkdir()
    (disk / "link").symlink_to("real")
    engine.run_container("trainer", {disk / "real": "/data"})
    assert locate(site_with(disk / "link" / "rlx"))[0].container_root == "/data/rlx"


def test_the_default_root_below_the_mounted_home(engine: Engine, own_home: Path) -> None:
    engine.run_container("trainer", {own_home: "/mnt/home"})
    site, _ = locate(site_with())
    assert (site.root, site.container_root) == ("~/rlx", "/mnt/home/rlx")


def test_the_default_root_on_another_mount(engine: Engine, own_home: Path, disk: Path) -> None:
    (disk / "models").mkdir()
    (disk / "secret").mkdir()
    mounts = [f"{disk}/models:/models:ro", f"{disk}/secret:/data with spaces", "/dev/null:/thing", "/etc:/host-etc"]
    engine.run_container("trainer", mounts)
    site, _ = locate(site_with())
    assert (site.root, site.container_root) == (f"{disk}/secret/rlx-root", "/data with spaces/rlx-root")


def test_a_mount_with_runs_is_preferred(engine: Engine, own_home: Path, disk: Path) -> None:
    for name in ("a", "b", "c"):
        (disk / name).mkdir()
    (disk / "b" / "rlx-root" / "runs").mkdir(parents=True)
    engine.run_container("trainer", {disk / name: f"/{name}" for name in ("a", "b", "c")})
    assert locate(site_with())[0].container_root == "/b/rlx-root"


def test_who_only_reads_finds_the_same_and_writes_nothing(engine: Engine, own_home: Path, disk: Path) -> None:
    for name in ("a", "b"):
        (disk / name).mkdir()
    engine.run_container("trainer", {disk / name: f"/{name}" for name in ("a", "b")})
    times = {folder: folder.stat().st_mtime_ns for folder in (disk / "a", disk / "b")}
    nothing_yet, _ = locate(site_with(), reading=True)
    assert nothing_yet.place.inside is None and nothing_yet.container_root is not None
    (disk / "b" / "rlx-root" / "runs").mkdir(parents=True)
    times[disk / "b"] = (disk / "b").stat().st_mtime_ns
    assert locate(site_with(), reading=True)[0].container_root == "/b/rlx-root"
    assert {folder: folder.stat().st_mtime_ns for folder in times} == times
    assert locate(site_with(), reading=True) == locate(site_with())


def test_who_only_reads_finds_runs_inside(engine: Engine, disk: Path) -> None:
    container = engine.run_container("trainer", {disk: "/workspace"})
    engine.docker("exec", "trainer", "mkdir", "-p", "/opt/rlx/runs")
    assert locate(site_with("/opt/rlx"), reading=True)[0].place.inside == container


def test_a_folder_that_another_user_made_for_us_is_not_taken(engine: Engine, own_home: Path, disk: Path) -> None:
    (disk / "data").mkdir()
    bait = disk / "data" / f"rlx-{getpass.getuser()}"
    (bait / "runs").mkdir(parents=True)
    for folder in (bait, bait / "runs"):
        folder.chmod(0o777)
        os.chown(folder, _USER, _USER)
    engine.run_container("trainer", [f"{disk}/data:/data", f"{own_home}:/home"])
    assert locate(site_with())[0].container_root == "/home/rlx"
    (own_home / "rlx" / "runs").mkdir(parents=True)
    assert locate(site_with(), reading=True)[0].container_root == "/home/rlx"
    assert not leftovers(disk)


def test_without_a_shared_folder_the_runs_lie_inside(
    engine: Engine, own_home: Path, wording: SnapshotAssertion
) -> None:
    container = engine.run_container("trainer")
    site, (warning,) = locate(site_with())
    assert (site.place.inside, site.container_root, site.root) == (container, None, "~/rlx")
    assert settled(warning, {container: "id"}) == wording


def test_an_explicit_root_that_is_not_shared_lies_inside(engine: Engine, disk: Path) -> None:
    container = engine.run_container("trainer", {disk: "/workspace"})
    site, warnings = locate(site_with("/opt/rlx"))
    assert (site.place.inside, site.root, len(warnings)) == (container, "/opt/rlx", 1)


def test_memory_is_no_place_for_runs(engine: Engine, own_home: Path) -> None:
    engine.run_container("trainer", options=("--tmpfs", "/root", "--tmpfs", "/scratch"))
    for root in ("~/rlx", "/scratch/rlx"):
        with pytest.raises(ContainerGone, match="memory"):
            locate(site_with(root))


def test_a_mount_in_memory_is_no_place_either(engine: Engine, own_home: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        engine.run_container("trainer", {memory: "/memory"})
        assert locate(site_with())[0].place.inside is not None


def test_a_container_user_who_cannot_enter_our_folder(engine: Engine, disk: Path, wording: SnapshotAssertion) -> None:
    engine.run_container("trainer", {disk: "/workspace"}, user="1234")
    with pytest.raises(ContainerGone, match=str(disk / "rlx")) as caught:
        locate(site_with(disk / "rlx"))
    assert settled(caught.value.message, {str(disk): "disk"}) == wording
    assert "uid" in caught.value.hint
    assert not leftovers(disk)


def test_a_mount_that_hides_another_is_noticed(engine: Engine, disk: Path, wording: SnapshotAssertion) -> None:
    (disk / "hidden").mkdir()
    engine.run_container("trainer", [f"{disk}:/data"], options=("--tmpfs", "/data/hidden"))
    with pytest.raises(ContainerGone, match=str(disk / "hidden")) as caught:
        locate(site_with(disk / "hidden"))
    assert settled(caught.value.message, {str(disk): "disk"}) == wording


def test_what_is_found(engine: Engine, disk: Path) -> None:
    container = engine.run_container("trainer", {disk: "/workspace"}, user="1234")
    found = inspect_container(site_with("/x"))
    assert (found.id, found.name, found.user) == (container, "trainer", 1234)
    assert found.image.startswith("sha256:")
    assert {"bash", "flock"} <= found.tools


@pytest.mark.parametrize(
    ("arrange", "fact"),
    [
        (("stop", "-t", "0"), "docker start trainer"),
        (("pause",), "docker unpause trainer"),
        (("rename",), "trainer-2"),
    ],
)
def test_a_container_that_cannot_be_entered(
    engine: Engine, arrange: tuple[str, ...], fact: str, wording: SnapshotAssertion
) -> None:
    engine.run_container("trainer")
    engine.docker(*arrange, "trainer", *(["trainer-2"] if arrange == ("rename",) else []))
    with pytest.raises(ContainerGone) as caught:
        locate(site_with())
    assert fact in caught.value.hint
    assert (caught.value.message, caught.value.hint) == wording


def test_no_daemon(monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(ContainerGone, match=r"unix:///nowhere\.sock") as caught:
        locate(site_with())
    assert caught.value.hint == wording


def test_no_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    for tool in ("sh", "tr", "id"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ContainerGone) as caught:
        locate(site_with())
    assert caught.value.message == wording


def test_no_right_to_use_docker(engine: Engine, disk: Path, wording: SnapshotAssertion) -> None:
    engine.run_container("trainer")
    script = (
        "import os, sys; from dataclasses import replace; from rlx.errors import RlxError; from rlx.hosts import *\n"
        f"os.setgroups([]); os.setgid({_USER}); os.setuid({_USER})\n"
        "try: print(locate(replace(local_site(), container='trainer')))\n"
        "except RlxError as error: sys.exit(error.message + '; ' + error.hint)"
    )
    completed = run_python(script, disk, {"HOME": "/", "RLX_CONFIG": "/"})
    assert "usermod -aG docker" in completed.stderr and completed.stderr == wording


def test_other_shells(engine: Engine, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busybox = shutil.which("busybox")
    assert busybox, "busybox is not installed"
    tools = "sh awk cat chmod cut df grep head id ln mkdir mktemp rm sed setsid sort stat timeout tr"
    for tool in tools.split():
        (tmp_path / tool).symlink_to(busybox)
    (tmp_path / "docker").symlink_to(str(shutil.which("docker")))
    monkeypatch.setenv("PATH", str(tmp_path))
    engine.run_container("trainer", {disk: "/workspace"})
    assert locate(site_with(disk / "rlx"))[0].container_root == "/workspace/rlx"
