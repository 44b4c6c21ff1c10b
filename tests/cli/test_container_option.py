"""--container on the command line: found on its host before anything is planned, and named in the plan."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.hosts import user_file
from rlx.model import Site, from_jsonable
from tests.cli.support import rlx
from tests.cli.test_secrets_asked import PROXY, SHOW, ended_runs, sha256, write_plans
from tests.conftest import REPOSITORY, stop_runs_below
from tests.engine import Engine
from tests.rig.machine import python_folders
from tests.runs.test_secrets import files_with_the_secret, watched_arguments
from tests.runs.toys import log_of, toy_plan
from tests.wording import settled

RECIPE = str(REPOSITORY / "recipes" / "tiny-cpu.yaml")
PYTHON = ("--set", f"backend.python={sys.executable}")
# Whatever this machine has of the tiny model, no launch of it is let pass.
NOWHERE = ("--set", "model.path=/nope")


@pytest.fixture
def root(engine: Engine) -> Iterator[Path]:
    """The run root of the test, which the container `trainer` sees as /shared."""
    folder = Path(os.environ["RLX_ROOT"])
    folder.mkdir()
    engine.run_container("trainer", {folder: "/shared", **{python: python for python in python_folders()}})
    yield folder
    stop_runs_below(folder / "runs")


def test_the_plan_says_how_the_container_calls_the_root(root: Path) -> None:
    wanted = f", in {root} on local, container trainer (/shared there)\n"
    assert wanted in rlx("plan", "-v", RECIPE, "--arm", "aqn", "--container", "trainer", *PYTHON, code=5).stdout
    user_file().parent.mkdir()
    user_file().write_text("hosts: {local: {container: trainer}}", encoding="utf-8")
    assert wanted in rlx("launch", "-v", RECIPE, "--arm", "aqn", "--dry-run", *PYTHON, code=5).stdout
    assert (
        f", in {root} on local\n"
        in rlx("plan", "-v", RECIPE, "--arm", "aqn", "--container", "", *NOWHERE, code=5).stdout
    )


@pytest.mark.usefixtures("engine")
def test_a_container_that_is_not_there_is_told_before_anything_is_planned() -> None:
    done = rlx("launch", RECIPE, "--container", "nobody", code=4)
    assert "nobody" in done.stderr
    assert "fix: " in done.stderr
    assert done.stdout == ""


def test_a_plan_from_a_file_is_held_against_the_container_of_now(
    root: Path, engine: Engine, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    planned = json.loads(
        rlx("plan", RECIPE, "--arm", "aqn", "--container", "trainer", "--json", *PYTHON, code=5).stdout
    )
    file = write_plans(
        tmp_path / "plan.json", replace(toy_plan("true"), site=from_jsonable(Site, planned["plans"][0]["site"]))
    )
    engine.docker("stop", "-t", "0", "trainer")
    done = rlx("launch", "--plan", file, code=4)
    assert "docker start trainer" in done.stderr
    engine.docker("rm", "trainer")
    engine.run_container("trainer", {root: "/shared"})
    done = rlx("launch", "--plan", file, code=5)
    assert "trainer" in done.stderr and settled(done.stderr, {file: "plan"}) == wording
    assert not (root / "runs").exists(), "nothing was launched"


def test_a_proxy_reaches_the_container_and_no_argument(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_file().parent.mkdir()
    user_file().write_text(
        "hosts: {local: {container: trainer, proxies: {https_proxy: {secret: CORP_PROXY}}}}", encoding="utf-8"
    )
    planned = json.loads(rlx("plan", RECIPE, "--arm", "aqn", "--json", *PYTHON, code=5).stdout)["plans"][0]
    plan = replace(toy_plan(SHOW), site=from_jsonable(Site, planned["site"]))
    monkeypatch.setenv("CORP_PROXY", PROXY)
    with watched_arguments() as found:
        rlx("launch", "--plan", write_plans(tmp_path / "plan.json", plan), "-y")
        (ref,) = ended_runs()
    assert sha256(PROXY) in log_of(ref)
    assert found == []
    assert files_with_the_secret() == []
