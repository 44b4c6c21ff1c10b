"""What versions before this one wrote and started: read, listed, judged, followed and stopped by today's rlx.

tests/cases/golden has it, as it was; its README says how it was made.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.api.launching import read_plans
from rlx.runs.manifest import manifest_digest, parse_manifest
from tests.cli.support import rlx, tiny_cpu_files
from tests.conftest import CASES
from tests.runs.toys import marked_processes, until

GOLDEN = CASES / "golden"
VERSIONS = sorted(folder for folder in GOLDEN.iterdir() if (folder / "root.tar.gz").exists())
REGISTERING = [folder for folder in VERSIONS if (folder / "digests.json").exists()]
SCORES = {("slow", 1): 0.68, ("slow", 2): 0.66, ("fast", 1): 0.7, ("fast", 2): 0.72}
PLANS = [plan for version in VERSIONS for plan in sorted((version / "plans").iterdir())]
each_version = pytest.mark.parametrize("version", VERSIONS, ids=lambda folder: folder.name)
each_registering = pytest.mark.parametrize("version", REGISTERING, ids=lambda folder: folder.name)
each_plan = pytest.mark.parametrize(
    "plan", PLANS, ids=lambda file: f"{file.parts[-3]}-{file.name.partition('.json')[0]}"
)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home directory with the runs where that version put them, `~/rlx`, whatever the variables of other tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RLX_ROOT")
    (tmp_path / "rlx").mkdir()
    (tmp_path / "root").symlink_to("rlx")  # where the fixture of all tests looks for runs to be ended
    yield tmp_path
    # That fixture would be refused: these runs were on a machine of another name.
    for run in (path for path in (tmp_path / "rlx/runs").glob("[!.]*") if not path.name.startswith("endless")):
        shutil.rmtree(run)


def unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-C", folder, "-xf", archive], check=True)


def unpack_all(version: Path, account: Path) -> None:
    """Unpack runs, index and shipment, and give the run that is to start an id of its own.

    What belongs to a run is found by its id on the whole machine, where another test may be running it as well.
    """
    unpack(version / "root.tar.gz", account)
    unpack(version / "home.tar.gz", account)
    unpack(version / "shipment.tar.gz", account / "rlx/runs/.incoming-1")
    (recorded,) = (account / "rlx/runs/.incoming-1").glob("endless-*")
    own = recorded.name[:-4] + os.urandom(2).hex()
    manifest = (recorded / "manifest.json").read_text(encoding="utf-8")
    recorded.rename(recorded.with_name(own))
    # The index knows the manifest by its digest.
    renamed = {recorded.name: own, manifest_digest(manifest): manifest_digest(manifest.replace(recorded.name, own))}
    for file in (path for path in account.rglob("*") if path.is_file() and not path.is_symlink()):
        content = file.read_bytes()
        for old, new in renamed.items():
            content = content.replace(old.encode(), new.encode())
        file.write_bytes(content)


def start_as_then(account: Path) -> None:
    """Start the third run as its launch did: the supervise.sh that was sent takes over."""
    incoming = account / "rlx/runs/.incoming-1"
    words = (str(incoming), str(incoming), str(account / "rlx"), os.environ["RLX_LEASES"])
    command = ["sh", str(incoming / "supervise.sh"), "accept", *words, os.environ["RLX_TMUX_SOCKET"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, encoding="utf-8")
    assert done.returncode == 0 and "started endless" in done.stdout, done.stdout + done.stderr


def listed() -> list[dict[str, Any]]:
    return list(json.loads(rlx("status", "-a", "--json").stdout)["runs"])


def states() -> dict[str, str]:
    return {run["arm"]: run["state"] for run in listed() if run["name"] != "asked"}


@each_plan
def test_plans_are_read_and_held_against_the_host_of_now(plan: Path, account: Path, has_what_it_asks: bool) -> None:
    document: dict[str, Any] = json.loads(gzip.decompress(plan.read_bytes()))
    file = account / "plan.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    for one, read in zip(document["plans"], read_plans(str(file)), strict=True):
        assert (read.arm, read.expectations.total_steps) == (one["arm"], one["expectations"]["total_steps"])
    said = rlx("launch", "--plan", str(file), "--dry-run", code=0 if has_what_it_asks else 2)
    assert all(one["arm"] in said.stdout for one in document["plans"])
    assert has_what_it_asks or "RLX403" in said.stdout


@pytest.fixture
def has_what_it_asks(plan: Path, account: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """This machine has what the tiny recipe asks for; the others want NPUs and a checkout."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    tiny_cpu_files(account)
    return plan.name.startswith("tiny-cpu")


@each_version
def test_manifests_are_read_in_full(version: Path, account: Path) -> None:
    unpack(version / "root.tar.gz", account)
    for file in (account / "rlx" / "runs").glob("*/manifest.json"):
        manifest = parse_manifest(file.read_text(encoding="utf-8"))
        assert manifest is not None and manifest.lacks == ""
        assert manifest.submitted_by == {"user": "me", "machine": "laptop", "rlx": version.name.partition("-")[0]}


@each_version
@pytest.mark.parametrize("has_index", [True, False], ids=["with-its-index", "without-index"])
def test_finished_runs_are_listed_judged_and_compared(version: Path, has_index: bool, account: Path) -> None:
    unpack(version / "root.tar.gz", account)
    if has_index:
        unpack(version / "home.tar.gz", account)
    runs = {run["arm"]: run for run in listed() if run["name"] == "exp"}
    for arm, accuracy in (("baseline", 0.68), ("fast", 0.7)):
        assert (runs[arm]["state"], runs[arm]["verdict"]["status"]) == ("finished", "valid")
        assert (runs[arm]["steps_done"], runs[arm]["last_validation"]["value"]) == (2, accuracy)
    said = rlx("compare", runs["baseline"]["run_id"], runs["fast"]["run_id"]).stdout
    assert "step 2: +2.0 " in said and "train.lr: 1e-06 → 2e-06" in said


@each_version
@pytest.mark.parametrize("has_index", [True, False], ids=["with-its-index", "without-index"])
def test_a_running_run_is_seen_followed_and_stopped(version: Path, has_index: bool, account: Path) -> None:
    unpack_all(version, account)
    if not has_index:
        shutil.rmtree(account / "home")
    start_as_then(account)
    until(lambda: states().get("endless") == "running", "it is seen running", 60)
    with subprocess.Popen(
        [sys.executable, "-m", "rlx", "logs", "endless", "-f"], stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as follower:
        assert follower.stdout is not None
        assert any("step:1 - timing_s/step:1.0" in line for line in follower.stdout)
        rlx("stop", "endless", "-y")
        follower.communicate(timeout=60)
    assert states() == {"baseline": "finished", "fast": "finished", "endless": "stopped"}
    verdict = next(run["verdict"] for run in listed() if run["arm"] == "endless")
    assert verdict["status"] == "incomplete", verdict["sentence"]
    (run,) = (account / "rlx" / "runs").glob("endless-*")
    assert marked_processes(run.name) == []


@each_registering
def test_an_experiment_is_listed_with_its_runs(version: Path, account: Path) -> None:
    unpack(version / "root.tar.gz", account)
    unpack(version / "home.tar.gz", account)
    (found,) = json.loads(rlx("experiments", "--json").stdout)["experiments"]
    assert found["digest"] == digests(version)["asked.yaml"]
    assert (found["by"], found["registered"][:4]) == ("me@laptop", "2026")
    runs = {(run["arm"], run["seed"]): run for run in listed() if run["name"] == "asked"}
    assert {slot: run["last_validation"]["value"] for slot, run in runs.items()} == SCORES
    assert {(run["state"], run["verdict"]["status"]) for run in runs.values()} == {("finished", "valid")}


@each_registering
def test_the_numbers_of_registered_runs_and_their_answer(
    version: Path, account: Path, wording: SnapshotAssertion
) -> None:
    unpack(version / "root.tar.gz", account)
    unpack(version / "home.tar.gz", account)
    said = rlx("compare", "slow", "fast").stdout
    facts = ("registered", "2 seeds", "+4.0", "-2.1", "+10.1", "p = 0.11", " 2.0 ")
    assert [fact for fact in facts if fact not in said] == [], said
    document = json.loads(rlx("compare", "slow", "fast", "--json").stdout)
    (contrast,) = document["contrasts"]
    assert (document["claim"], contrast["sentences"]) == wording
    assert "fast-s2  ▁▆█  0.1 → 0.72" in rlx("metrics", "asked").stdout


@each_registering
def test_its_recipe_means_the_experiment_that_was_registered(version: Path, account: Path) -> None:
    """The launch of today finds all runs there, and registers nothing anew."""
    unpack(version / "root.tar.gz", account)
    unpack(version / "home.tar.gz", account)
    shutil.copytree(GOLDEN / "recipes", account / "recipes")
    recipe = account / "recipes" / "asked.yaml"
    words = ("launch", str(recipe), "--host", "local", "--dry-run", "--json")
    assert json.loads(rlx(*words).stdout)["plans"] == []
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("lr: 2.0e-6", "lr: 3.0e-6"), encoding="utf-8")
    assert json.loads(rlx(*words, code=None).stdout)["plans"] != []


@each_registering
def test_digests_of_then_are_recognised(version: Path) -> None:
    from rlx.backends.shared.registering import registration_of
    from rlx.recipe import load_recipe

    for name, digest in digests(version).items():
        file = load_recipe(GOLDEN / "recipes" / name)
        asked = registration_of(file.name, file.control, file.experiment)
        assert asked is not None and asked.is_called(digest) and asked.digest != digest


def digests(version: Path) -> dict[str, str]:
    return dict(json.loads((version / "digests.json").read_text(encoding="utf-8")))
