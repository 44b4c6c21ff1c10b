"""A host or container that tells another story of a run than was launched: a finding, and nothing changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.errors import RlxError
from rlx.model import RunState, Site
from rlx.runs import Index, RunRef, query_leases, stop
from tests.cli.support import rlx
from tests.conftest import stop_runs_below
from tests.engine import Engine
from tests.rig.rig import Rig
from tests.runs.laptop import GO, Laptop, go, is_up, run_folder, toy
from tests.runs.test_containers import shared, start_in
from tests.runs.toys import FOREVER, ended, home, reaches, see, start, toy_plan, until


def rewrite(folder: Path, **changes: object) -> str:
    """Change a manifest as its host can; returns the text that was there."""
    path = folder / "manifest.json"
    before = path.read_text(encoding="utf-8")
    document = json.loads(before)
    document["plan"].update(changes)
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return before


def row(name: str) -> dict[str, object]:
    (found,) = json.loads(rlx("status", "--json", name).stdout)["runs"]
    return dict(found)


def test_a_manifest_that_was_changed_is_not_believed() -> None:
    liar, honest = start(toy_plan("true", arm="liar"), toy_plan("true", arm="honest"))
    for ref in (liar, honest):
        ended(ref)
    before = rewrite(liar.run_dir, control="honest")
    assert "RLX410" in str(row("liar"))
    assert "RLX410" in rlx("compare", "honest", "liar", code=1).stderr
    assert "RLX410" not in str(row("honest"))
    (liar.run_dir / "manifest.json").write_text(before, encoding="utf-8")
    assert "RLX410" not in str(row("liar"))


def test_a_manifest_of_a_run_from_elsewhere_is_only_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is known of it here, so nothing is held against it."""
    (ref,) = start(toy_plan("true"))
    ended(ref)
    rewrite(ref.run_dir, control="main")
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "another"))
    assert "RLX410" not in str(row("main"))


@pytest.fixture
def site(engine: Engine, tmp_path: Path) -> Iterator[Site]:
    yield shared(engine, tmp_path, "trainer")
    stop_runs_below(tmp_path / "root" / "runs")


@pytest.fixture
def other(engine: Engine, site: Site, tmp_path: Path) -> str:
    """Another container of this user, in which the root of the first one would like to run something."""
    folder = tmp_path / "victim/evil/runs"
    folder.mkdir(parents=True)
    return engine.run_container("victim", {tmp_path / "victim": "/victim"})


def lie(ref: RunRef, container: str, victim: Path) -> str:
    """What root of the container can write: another container, and what `inside` would run there."""
    path = ref.run_dir / "container"
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{container}\n/victim/evil\n", encoding="utf-8")
    (victim / "evil/supervise.sh").write_text("touch /victim/owned; echo in x supervisor=live\n", encoding="utf-8")
    return before


def test_a_container_that_only_a_file_names_is_not_entered(site: Site, other: str, tmp_path: Path) -> None:
    ref = start_in(site, FOREVER)
    before = lie(ref, other, tmp_path / "victim")
    assert see(ref).detail.startswith("RLX411 ")
    with pytest.raises(RlxError, match="RLX411"):
        stop(ref, 0)
    for arguments in (("status", "--all"), ("status", "-v"), ("logs", "main")):
        rlx(*arguments)
    query_leases(site.place, site.leases)
    assert not (tmp_path / "victim/owned").exists()
    (ref.run_dir / "container").write_text(before, encoding="utf-8")
    assert see(ref).leader_live
    stop(ref, 0)
    assert "SIG" in reaches(ref, RunState.STOPPED).detail


def test_who_did_not_launch_it_needs_the_inventory(site: Site, tmp_path: Path) -> None:
    ref = start_in(site, FOREVER)
    stranger = Index(tmp_path / "another")
    stranger.rebuild(replace(site, container=None, container_id=None, container_root=None))
    (seen,) = stranger.runs()
    assert (seen, seen.container) == (ref, "")
    stranger.rebuild(site)
    (seen,) = stranger.runs()
    assert seen.container == site.container_id == Index(home()).runs()[0].container


def test_a_host_that_shows_a_run_of_another_one(rig: Rig, tmp_path: Path) -> None:
    laptop = Laptop(rig.client, tmp_path / "laptop")
    honest, liar = rig.host("h1"), rig.host("h2")
    (ref,) = laptop.launch(toy(laptop.site("h1"), GO))
    until(lambda: is_up(honest, ref), "it runs")
    theirs = liar.path("/root/rlx/runs") / ref.run_id
    theirs.parent.mkdir(parents=True)
    liar_copy = json.loads((run_folder(honest, ref) / "manifest.json").read_text(encoding="utf-8"))
    theirs.mkdir()
    (theirs / "manifest.json").write_text(json.dumps(liar_copy), encoding="utf-8")
    (theirs / "attempts/1/state/started").mkdir(parents=True)
    (theirs / "attempts/1/state/exit").write_text("0 leader 1700000000 1\n", encoding="utf-8")
    (theirs / "attempts/1/log").write_text("a result of another machine\n", encoding="utf-8")
    said = laptop.rlx("status", "--host", "h2")
    assert re.search(rf"warning RLX409 h2 .*{ref.run_id}.* h1 ", said.err)
    assert [run.host for run in laptop.runs()] == ["h1"]
    assert laptop.rows()["main"]["state"] in ("starting", "running")
    assert "another machine" not in laptop.rlx("logs", "main").out
    # What h2 does to its files, h1's run is not ended by it.
    go(honest, ref)
    assert laptop.ended(ref).exit_code == 0
    rewrite(run_folder(honest, ref), control="x")
    assert "RLX409 h1 " in laptop.rlx("status", "--host", "h1").err
    assert len(laptop.runs()) == 1
