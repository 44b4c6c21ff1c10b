"""Back-ends and trackers that other distributions bring by an entry point: found, used, and broken ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import CASES, REPOSITORY
from tests.plug_ins import install
from tests.recorded import place_runs

Rlx = Callable[..., "subprocess.CompletedProcess[str]"]
BACKENDS, TRACKERS = "rlx.backends", "rlx.trackers"
RECIPE = REPOSITORY / "recipes/tiny-cpu.yaml"
TOY_LOG = "toy starts\n" + "".join(f"round {step} of 4 | reward=0.{step} | seconds=2.0\n" for step in range(1, 5))
TRACKER = """
PACKAGES = ()

def environment(folder):
    return {}

def write(runs, folder):
    (folder / "names.txt").write_text("".join(f"{run.name}\\n" for run in runs), encoding="utf-8")

def next_command(runs, folder):
    return f"cat {folder}/names.txt"
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed distributions."""
    (folder := tmp_path / "site").mkdir()
    return folder


@pytest.fixture
def rlx(site: Path, tmp_path: Path) -> Rlx:
    """`rlx` in a process that has the folder on its path."""

    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "rlx", *words],
            env={**os.environ, "PYTHONPATH": f"{site}:{REPOSITORY}"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.mark.long
def test_the_log_of_a_back_end_of_another_distribution_is_read(rlx: Rlx, site: Path, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(TOY_LOG, encoding="utf-8")

    def last_step() -> int | None:
        return json.loads(rlx("diagnose", "log", "--json").stdout)["runs"][0]["last_step"]  # type: ignore[no-any-return]

    assert last_step() is None
    install(site, BACKENDS, "toy = tests.evidence.toy_backend\n")
    assert last_step() == 4
    run_id = rlx("import", "log", "--name", "toy").stdout.strip()
    (run,) = json.loads(rlx("metrics", run_id, "reward", "--json").stdout)["runs"]
    assert run["metrics"]["reward"] == [[1, 0.1], [2, 0.2], [3, 0.3], [4, 0.4]]


def test_a_recipe_may_name_it_and_another_kind_is_refused_with_all_names(rlx: Rlx, site: Path, tmp_path: Path) -> None:
    install(site, BACKENDS, "toy = tests.evidence.toy_backend\n")
    said = rlx("validate", str(RECIPE), "--set", "backend.kind=tory", code=2).stdout
    assert "toy" in said and "mindspeed-rl" in said


def test_a_broken_back_end_costs_the_recipes_that_name_it(rlx: Rlx, site: Path) -> None:
    install(site, BACKENDS, "toy = broken_package\n")
    (site / "broken_package.py").write_text("raise ImportError('no such library')\n", encoding="utf-8")
    place_runs(CASES / "pairs/tiny-cpu")
    done = rlx("status", "-a", "--json")
    assert [row["verdict"]["status"] for row in json.loads(done.stdout)["runs"]] == ["valid", "valid"]
    (warning,) = (line for line in done.stderr.splitlines() if "warning" in line)
    assert "toy (broken_package" in warning and "no such library" in warning
    assert "toy (broken_package" in rlx("validate", str(RECIPE), "--set", "backend.kind=toy", code=1).stderr


def test_a_row_of_findings_that_is_taken_costs_that_row(rlx: Rlx, site: Path) -> None:
    install(site, BACKENDS, "toy = plug\n")
    (site / "plug/findings").mkdir(parents=True)
    (site / "plug/__init__.py").touch()
    (site / "plug/findings/host.toml").write_text('[RLX601]\ntitle = "mine"\n', encoding="utf-8")
    done = rlx("explain", "RLX601")
    (warning,) = (line for line in done.stderr.splitlines() if "RLX601" in line)
    assert "mine" not in done.stdout and str(site / "plug/findings/host.toml") in warning


@pytest.mark.long
def test_a_tracker_of_another_distribution_is_written(rlx: Rlx, site: Path, tmp_path: Path) -> None:
    place_runs(CASES / "pairs/tiny-cpu")
    assert "rlx.trackers" in rlx("export", "baseline", "--to", "mine", code=2).stderr
    install(site, TRACKERS, "mine = my_tracker\n")
    (site / "my_tracker.py").write_text(TRACKER, encoding="utf-8")
    rlx("export", "baseline", "--to", "mine", "--out", "out")
    assert "baseline" in (tmp_path / "out/names.txt").read_text(encoding="utf-8")
    (site / "my_tracker.py").write_text("import no_such_module\n", encoding="utf-8")
    said = rlx("export", "baseline", "--to", "mine", "--out", "again", code=1).stderr
    assert "mine (my_tracker, " in said and "rlx.trackers" in said
    assert "my_tracker" not in rlx("export", "baseline", "--to", "tensorboard", "--out", "other").stderr
