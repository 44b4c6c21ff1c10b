"""`pip install .` into an empty environment gives a working rlx: recipes and templates ride along, torch does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("install")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", REPOSITORY], check=True, cwd=folder)
    return python


def rlx(python: Path, cwd: Path, *arguments: str) -> str:
    environment = {**os.environ, "RLX_HOME": str(cwd / "home")}
    done = subprocess.run(
        [python.parent / "rlx", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_installed_rlx_works_without_torch(installed: Path, tmp_path: Path) -> None:
    torch = subprocess.run([installed, "-c", "import torch"], capture_output=True, check=False)
    assert torch.returncode != 0
    assert "tiny-cpu" in rlx(installed, tmp_path, "recipes")
    rlx(installed, tmp_path, "validate", "tiny-cpu")
    plans = json.loads(rlx(installed, tmp_path, "plan", "tiny-cpu", "--json"))["plans"]
    assert {plan["arm"] for plan in plans} == {"baseline", "aqn"}
    assert any(file["path"] == "launch.sh" for file in plans[0]["files"])


def test_the_installed_rlx_has_its_types_and_says_what_it_is(installed: Path, tmp_path: Path) -> None:
    program = """
import importlib.metadata, importlib.resources, rlx
about = importlib.metadata.metadata("rlx")
assert about["Version"] == rlx.__version__, about["Version"]
assert "Typing :: Typed" in about.get_all("Classifier")
assert (importlib.resources.files(rlx) / "py.typed").is_file()
assert len(rlx.plan("tiny-cpu").plans) == 2
"""
    done = subprocess.run([installed, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
