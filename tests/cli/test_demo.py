"""The first ten seconds: recorded runs, what is wrong with three pairs of four, and a folder of their own."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.support import rlx
from tests.rig import Rig
from tests.runs.laptop import Laptop
from tests.wording import settled


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_pair_is_sorted_differences(wording: SnapshotAssertion) -> None:
    scenes = {scene["name"]: scene for scene in json.loads(rlx("demo", "--json").stdout)["scenes"]}
    assert {name: scene["verdicts"]["aqn"]["status"] for name, scene in scenes.items()} == {
        "honest": "valid",
        "no-noise": "invalid",
        "cut-short": "incomplete",
        "other-evaluation": "valid",
    }
    assert {scene["verdicts"]["baseline"]["status"] for scene in scenes.values()} == {"valid"}
    assert {name for name, scene in scenes.items() if scene["reportable"]} == {"honest"}
    for name, id in (("no-noise", "RLX601"), ("cut-short", "RLX801"), ("other-evaluation", "RLX902")):
        assert id in scenes[name]["said"]
    assert "RLX" not in scenes["honest"]["said"] and scenes["honest"]["said"] == wording
    for scene in scenes.values():
        assert "<html" in Path(scene["page"]).read_text(encoding="utf-8")


def test_what_it_says_to_type_next_works_and_the_own_runs_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    said = rlx("demo").stdout
    assert json.loads(rlx("status", "--json").stdout)["runs"] == []
    assert not Path(os.environ["RLX_HOME"], "index.db").read_bytes().count(b"no-noise")
    lines = said.splitlines()
    for line in lines:
        if line.startswith("  export "):
            monkeypatch.setenv(*shlex.split(line)[1].split("=", 1))
    commands = [line.removeprefix("  rlx ") for line in lines if line.startswith("  rlx ")]
    assert len(commands) == 3
    for command in commands:
        rlx(*shlex.split(command), code=14 if command.startswith("compare") else 0)


def test_a_full_disk_is_named(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    rig.client.run("mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(tmp_path / "small"))
    said = Laptop(rig.client, tmp_path / "home").rlx("demo", "--to", str(tmp_path / "small/demo"))
    assert said.code == 1 and str(tmp_path / "small") in said.err and "  fix: " in said.err, said


def test_it_replaces_an_earlier_demo_and_nothing_else(tmp_path: Path, wording: SnapshotAssertion) -> None:
    rlx("demo", "--to", "shown")
    rlx("demo", "--to", "shown")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years of work", encoding="utf-8")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for name in ("mine", "file"):
        refused = rlx("demo", "--to", name, code=2).stderr
        assert name in refused and settled(refused, {str(tmp_path): "folder"}) == wording(name=name)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    assert "rlx demo --to" in rlx("demo", "--to", "/proc/nowhere", code=1).stderr
