"""rlx launch and rlx stop as a person types them."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.cli.frame.output import JSON_SCHEMA_VERSION
from rlx.model import LaunchPlan, RunState, Site, to_jsonable
from rlx.runs import Index, resolve, supervisor
from rlx.runs.launching.shipment import Shipped, pack
from rlx.runs.run import new_ref
from tests.command import run_rlx
from tests.runs.toys import FOREVER, ended, home, log_of, see, start, toy_plan, until
from tests.wording import settled


def rlx(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = run_rlx(arguments, environment={**os.environ, **environment}, timeout_s=60)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    plans = [toy_plan(f"echo up\n{FOREVER}", arm="base", secrets=("TOKEN",)), toy_plan("exit 7", arm="aqn")]
    return write_plans(tmp_path / "plans.json", plans)


def write_plans(path: Path, plans: list[LaunchPlan]) -> Path:
    path.write_text(json.dumps({"schema_version": JSON_SCHEMA_VERSION, "plans": to_jsonable(plans)}), encoding="utf-8")
    return path


def test_a_launch_answers_with_the_run_ids_and_narrates_what_to_do_next(
    plan_file: Path, wording: SnapshotAssertion
) -> None:
    done = rlx("launch", "--plan", str(plan_file), "-y", TOKEN="t0ps3cret")
    assert done.returncode == 0, done.stderr
    ids = done.stdout.splitlines()
    assert [re.sub(r"-\d{8}-\d{6}-[0-9a-f]{4}$", "", run_id) for run_id in ids] == ["toy-base-s1", "toy-aqn-s1"]
    assert "rlx status" in done.stderr and "rlx logs" in done.stderr
    assert "t0ps3cret" not in done.stdout + done.stderr
    assert [ref.run_id for ref in resolve(Index(home()), ["base", "aqn"])] == ids
    stopped = rlx("stop", "base")
    assert (stopped.returncode, stopped.stdout.split()[:2]) == (0, [ids[0], "stopped;"])
    assert re.sub(r"\d+ processes", "<count> processes", settled(stopped.stdout, {ids[0]: "run"})) == wording
    (aqn,) = resolve(Index(home()), ["aqn"])
    assert ended(aqn).exit_code == 7
    again = rlx("stop", "aqn")
    assert (again.returncode, again.stdout.split()[1:3]) == (0, ["had", "failed;"])


def test_a_launch_as_json(plan_file: Path) -> None:
    done = rlx("launch", "--plan", str(plan_file), "-y", "--json", TOKEN="t")
    answer = json.loads(done.stdout)
    assert answer["schema_version"] == JSON_SCHEMA_VERSION
    assert [run["arm"] for run in answer["runs"]] == ["base", "aqn"]
    assert all(Path(run["run_dir"]).is_dir() for run in answer["runs"])


def test_a_missing_secret_is_named_and_nothing_is_launched(plan_file: Path) -> None:
    done = rlx("launch", "--plan", str(plan_file))
    assert done.returncode == 2
    assert "TOKEN" in done.stderr and "--secret-file" in done.stderr and "Traceback" not in done.stderr
    assert not Path(os.environ["RLX_ROOT"]).exists()


def test_a_dry_run_prints_the_plans_and_writes_nothing(plan_file: Path) -> None:
    done = rlx("launch", "--plan", str(plan_file), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plans"] == json.loads(plan_file.read_text(encoding="utf-8"))["plans"]
    assert not home().exists() and not Path(os.environ["RLX_ROOT"]).exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("launch",),
        ("launch", "recipe.yaml", "--plan", "p.json"),
        ("launch", "recipe.yaml", "--host", "npu-7"),
        ("stop",),
        ("stop", "base", "--all"),
        ("launch", "--plan", "no-such-file.json"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error_with_a_fix(arguments: tuple[str, ...]) -> None:
    done = rlx(*arguments)
    assert done.returncode == 2
    assert "fix:" in done.stderr and "Traceback" not in done.stderr


def test_all_wants_a_yes_and_then_stops_all(tmp_path: Path) -> None:
    plans = write_plans(tmp_path / "p.json", [toy_plan(f"echo up\n{FOREVER}", arm=arm) for arm in "ab"])
    assert rlx("launch", "--plan", str(plans)).returncode == 0
    first, second = Index(home()).runs()
    until(lambda: "up" in log_of(first), "the first runs")
    refused = rlx("stop", "--all")
    assert refused.returncode == 1 and "-y" in refused.stderr
    assert see(first).state is RunState.STARTING
    assert rlx("stop", "--all", "-y", "--grace", "2").returncode == 0
    assert [see(ref).state for ref in (first, second)] == [RunState.STOPPED] * 2
    nothing = rlx("stop", "--all", "-y")
    assert (nothing.returncode, nothing.stdout) == (0, "")


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 9},
        {"site": to_jsonable(Site(container="verl"))},
        {"site": to_jsonable(Site(root="runs"))},
        {"site": to_jsonable(Site(root=""))},
        {"files": [{"path": "launch.sh", "content": "", "mode": 0o4755}]},
        {"files": [{"path": "launch.sh", "content": "", "mode": 0o700}] * 2},
        {"files": [{"path": "launch.sh", "content": "\ud800", "mode": 0o700}]},
        {"files": [{"path": "../launch.sh", "content": "", "mode": 0o700}]},
        {"files": [{"path": "state/../../x", "content": "", "mode": 0o700}]},
        {"files": [{"path": "manifest.json", "content": "", "mode": 0o700}]},
        {"files": []},
        {"devices": 0},
    ],
    ids=[
        *("schema", "container", "relative root", "no root", "mode", "twice", "surrogate", "above", "above from below"),
        *("manifest", "no files", "no devices"),
    ],
)
def test_a_plan_edited_by_hand_is_refused_before_anything_is_written(
    changes: dict[str, object], tmp_path: Path, wording: SnapshotAssertion
) -> None:
    document = {"schema_version": JSON_SCHEMA_VERSION, "plans": [{**to_jsonable(toy_plan("true")), **changes}]}
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(document), encoding="utf-8")
    done = rlx("launch", "--plan", str(edited))
    assert (done.returncode, done.stdout) == (2, "")
    assert settled(done.stderr, {str(edited): "plan"}) == wording
    assert not Path(os.environ["RLX_ROOT"]).exists()


def test_a_secret_without_a_value_is_not_launched(tmp_path: Path, wording: SnapshotAssertion) -> None:
    plan = write_plans(tmp_path / "plans.json", [toy_plan("true", secrets=("TOKEN",))])
    done = rlx("launch", "--plan", str(plan), TOKEN="")
    assert (done.returncode, "TOKEN" in done.stderr) == (2, True)
    assert settled(done.stderr, {str(tmp_path): "folder"}) == wording


def test_an_unknown_run_is_exit_12_with_the_nearest_name(plan_file: Path) -> None:
    assert rlx("stop", "aqn").returncode == 12
    rlx("launch", "--plan", str(plan_file), "-y", TOKEN="t")
    done = rlx("stop", "aqm")
    assert done.returncode == 12 and "aqn" in done.stderr


def test_the_script_that_supervises_runs_travels_once_and_lies_in_each() -> None:
    plans = [toy_plan("true", seed=seed) for seed in (1, 2, 3)]
    shipped = [Shipped(plan, new_ref(plan, "launch", 1e9), position) for position, plan in enumerate(plans)]
    alone, together = len(pack(shipped[:1], {})), len(pack(shipped, {}))
    assert together - alone < len(gzip.compress(supervisor.script().encode())) / 2
    for ref in start(*plans):
        assert (ref.run_dir / "supervise.sh").read_text(encoding="utf-8") == supervisor.script()
        ended(ref)
