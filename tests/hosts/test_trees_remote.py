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
from syrupy.assertion import SnapshotAssertion

from tests.backends.conftest import BASE, merge
from tests.cli.support import rlx
from tests.loopback import Loopback, loopback
from tests.wheels import INSTALLED

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
    planned = ids(rlx("plan", str(recipe), "--host", "ssh://loop", "--json", code=5).stdout)
    assert "loop" in planned["RLX402"] and f"verl {INSTALLED}" in planned["RLX402"]
    (tree,) = (tmp_path / "home/trees").iterdir()
    assert (tree / "ppo_trainer.yaml").is_file()
    assert ids(rlx("launch", str(recipe), "--host", "ssh://loop", "--dry-run", "--json", code=5).stdout) == planned


def test_the_memory_is_that_of_the_model_on_the_host(
    recipe: Path, loopback: Loopback, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    """A folder called like one model with the config.json of another, or of none that rlx knows, or without one."""
    model = tmp_path / "models/Qwen2.5-0.5B"
    model.mkdir(parents=True)
    sizes = {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "vocab_size": 152064}
    config = {**sizes, "model_type": "qwen2", "num_key_value_heads": 4, "intermediate_size": 18944}
    options = ("plan", str(recipe), "--set", f"model.path={model}", "--host", "ssh://loop")
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    answer = json.loads(rlx(*options, "--json", code=5).stdout)["memory"][0]
    assert answer["model"] == "qwen2" and "ssh://loop" in answer["source"]
    # Of 7.6 billion parameters 8 bytes each, over 8 devices.
    expected = pytest.approx([7.615e9 / 2**30] * 2, abs=0.01)
    assert answer["phases_gib"]["actor update"]["parts"]["optimizer"] == expected
    (model / "config.json").write_text(json.dumps({**config, "model_type": "gemma3"}), encoding="utf-8")
    shown = rlx(*options, "-v", code=5).stdout
    assert "ssh://loop" in shown and "'gemma3'" in shown
    by_table = json.loads(rlx(*options, "--json", code=5).stdout)["memory"][0]
    (model / "config.json").unlink()
    unread = json.loads(rlx(*options, "--json", code=5).stdout)["memory"][0]
    assert by_table["model"] == unread["model"] == "qwen2.5-0.5b"
    assert [answer["source"], by_table["source"], unread["source"]] == wording


def test_a_plan_does_without_its_host_and_a_launch_does_not(recipe: Path, loopback: Loopback) -> None:
    loopback.stop()
    loopback.cut()
    planned = ids(rlx("plan", str(recipe), "--host", "ssh://loop", "--json").stdout)
    assert "verl 0.7.1" in planned["RLX404"]
    rlx("launch", str(recipe), "--host", "ssh://loop", code=4)


def test_all_questions_of_a_launch_share_one_connection(recipe: Path, loopback: Loopback) -> None:
    rlx("launch", str(recipe), "--host", "ssh://loop", "--dry-run", code=5)
    assert loopback.log().count("Accepted publickey") == 1


def test_a_mistake_in_the_recipe_is_told_without_waiting_for_the_host(recipe: Path, loopback: Loopback) -> None:
    recipe.write_text(recipe.read_text(encoding="utf-8") + "spleed: 1\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"ssh://127.0.0.1:{silent.getsockname()[1]}"
        refused = subprocess.run(
            [sys.executable, "-m", "rlx", "launch", str(recipe), "--host", place], capture_output=True, check=False
        )
        assert refused.returncode == 2 and b"spleed" in refused.stderr
        # Neither does the question stay behind.
        listed = subprocess.run(
            ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True, encoding="utf-8"
        ).stdout
        assert place not in listed
