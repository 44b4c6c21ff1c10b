"""Root of a container can write the folder that it shares with its host. Nothing of that runs as the host's user."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.model import RunState, Site
from rlx.runs import query_leases, stop
from tests.conftest import stop_runs_below
from tests.devices import put_program
from tests.engine import Engine
from tests.runs.test_containers import plan_in, shared, start_in
from tests.runs.toys import FOREVER, ended, holder_pid, log_of, reaches, see, start, toy_plan, until
from tests.wording import settled

_GO = "while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done\n"


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    yield shared(engine, tmp_path, "trainer")
    stop_runs_below(tmp_path / "root" / "runs")


def test_what_the_container_writes_is_not_run_on_the_host(engine: Engine, site: Site, tmp_path: Path) -> None:
    first = start_in(site, _GO)
    (waiting,) = start(plan_in(site, "exit 0\n"))
    reaches(waiting, RunState.QUEUED)
    # The container has no such folder: the file appears only if the host's user runs this.
    owned = tmp_path / "owned"
    rewrite = 'cd $1 && rm container && for file in supervise.sh launch.sh; do echo "$0" >$file; done'
    engine.docker("exec", "trainer", "sh", "-c", rewrite, f"touch {owned}; exit 0", f"/shared/runs/{waiting.run_id}")
    (first.run_dir / "go").touch()
    assert ended(first).state is RunState.FINISHED
    until(lambda: see(waiting).state.is_terminal, "it cannot run")
    query_leases(site.place, site.leases)
    stop(waiting, 0)
    assert not owned.exists()
    # Its devices are free again.
    assert ended(start(toy_plan("true", arm="next"))[0]).state is RunState.FINISHED


def test_a_container_file_that_is_no_id_is_not_given_to_docker(site: Site, wording: SnapshotAssertion) -> None:
    ref = start_in(site, FOREVER)
    path = ref.run_dir / "container"
    kept = path.read_text(encoding="utf-8")
    path.write_text("--help\n/shared\n", encoding="utf-8")
    assert see(ref).detail == wording
    path.write_text(kept, encoding="utf-8")
    assert see(ref).leader_live


def test_a_holder_log_that_is_a_link_is_not_followed(engine: Engine, site: Site, tmp_path: Path) -> None:
    """What comes from the container may not end up in a file of the host's user, such as their .profile."""
    first = start_in(site, _GO)
    (waiting,) = start(plan_in(site, "exit 0\n"))
    reaches(waiting, RunState.QUEUED)
    profile = tmp_path / "profile"
    profile.write_text("# mine\n", encoding="utf-8")
    engine.docker("stop", "-t", "0", "trainer")
    for name in ("holder.log", "attempts/1/log"):
        path = waiting.run_dir / name
        path.unlink()
        path.symlink_to(profile)
    reaches(first, RunState.LOST)
    ended(waiting)
    added = profile.read_text(encoding="utf-8").removeprefix("# mine\n")
    assert not set(added) & set("`$;&|<>()\"'\\")


def test_a_shipment_that_was_changed_on_its_way_starts_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    programs, owned = tmp_path / "programs", tmp_path / "owned"
    programs.mkdir()
    change = f'for last; do :; done; echo "touch {owned}" >"$last/supervise.sh"'
    put_program(programs, "tar", f'{shutil.which("tar")} "$@" || exit; {change}')
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with pytest.raises(RlxError) as caught:
        start(plan_in(site, "true\n"))
    assert settled(caught.value.message, {str(tmp_path): "folder"}) == wording
    assert not owned.exists()
    assert not list((tmp_path / "root" / "runs").iterdir())


@contextmanager
def halted(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_reason_why_it_could_not_be_entered_is_still_told(engine: Engine, site: Site) -> None:
    first = start_in(site, FOREVER)
    (waiting,) = start(plan_in(site, "exit 0\n"))
    reaches(waiting, RunState.QUEUED)
    # Docker stops it before it removes it; the devices go to the one that waits only when it is gone.
    with halted(holder_pid(first)):
        engine.docker("rm", "-f", "trainer")
    assert ended(waiting).exit_code == 125
    assert log_of(waiting).startswith("rlx: ") and "o such container" in log_of(waiting)
