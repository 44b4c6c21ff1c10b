"""The back-end of a host behind a real sshd is the one that counts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.backends.conftest import BASE, INSTALLED, merge
from tests.cli.support import rlx
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    document: dict[str, Any] = json.loads(json.dumps(BASE))
    # As on a host whose own Python is not the one that trains.
    merge(document, {"backend": {"version": "0.7.1", "python": sys.executable}})
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def ids(answer: str) -> dict[str, str]:
    return {finding["id"]: finding["message"] for finding in json.loads(answer)["plans"][0]["findings"]}


def test_a_host_is_asked_and_its_files_are_kept(recipe: Path, loopback: Loopback, tmp_path: Path) -> None:
    planned = ids(rlx("plan", str(recipe), "--host", "ssh://loop", "--json").stdout)
    assert f"loop has verl {INSTALLED}" in planned["RLX402"]
    (tree,) = (tmp_path / "home/trees").iterdir()
    assert (tree / "ppo_trainer.yaml").is_file()
    assert ids(rlx("launch", str(recipe), "--host", "ssh://loop", "--dry-run", "--json").stdout) == planned


def test_a_plan_does_without_its_host_and_a_launch_does_not(recipe: Path, loopback: Loopback) -> None:
    loopback.stop()
    loopback.cut()
    planned = ids(rlx("plan", str(recipe), "--host", "ssh://loop", "--json").stdout)
    assert "rlx's own list for verl 0.7.1 only" in planned["RLX404"]
    rlx("launch", str(recipe), "--host", "ssh://loop", code=4)


def test_all_questions_of_a_launch_share_one_connection(recipe: Path, loopback: Loopback) -> None:
    rlx("launch", str(recipe), "--host", "ssh://loop", "--dry-run")
    assert loopback.log().count("Accepted publickey") == 1


def test_a_mistake_in_the_recipe_is_told_without_waiting_for_the_host(recipe: Path, loopback: Loopback) -> None:
    recipe.write_text(recipe.read_text() + "spleed: 1\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"ssh://127.0.0.1:{silent.getsockname()[1]}"
        refused = subprocess.run(
            [sys.executable, "-m", "rlx", "launch", str(recipe), "--host", place], capture_output=True, check=False
        )
        assert refused.returncode == 2 and b"spleed" in refused.stderr
        # Neither does the question stay behind.
        listed = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        assert place not in listed
