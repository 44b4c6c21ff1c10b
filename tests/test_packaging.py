"""`pip install .` into an empty environment gives a working rlx: recipes and templates ride along, torch does not.

And what becomes of it beside a distribution that brings a package and a command of the same name.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.website.pages import FOR_USERS, typed


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
        [python.parent / "rlx", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
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
    scenes = json.loads(rlx(installed, tmp_path, "demo", "--json"))["scenes"]
    assert [scene["reportable"] for scene in scenes] == [True, False, False, False]


def test_the_installed_rlx_has_its_types_and_says_what_it_is(installed: Path, tmp_path: Path) -> None:
    program = """
import importlib.metadata, importlib.resources, rlx
about = importlib.metadata.metadata("rlx-evidence")
assert about["Version"] == rlx.__version__, about["Version"]
assert "Typing :: Typed" in about.get_all("Classifier")
assert (importlib.resources.files(rlx) / "py.typed").is_file()
assert len(rlx.plan("tiny-cpu").plans) == 2
"""
    done = subprocess.run(
        [installed, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_installed_rlx_understands_each_command_of_the_pages(installed: Path, tmp_path: Path) -> None:
    commands = sorted({command for page in FOR_USERS for command in typed(page)})
    done = subprocess.run(
        [installed, REPOSITORY / "tests/website/parse_commands.py"],
        cwd=tmp_path,
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert len(commands) > 120
    assert json.loads(done.stdout) == {}


THE_OTHER = "the other rlx"
OTHER = {
    "rlx/__init__.py": "__version__ = '9.9'\n",
    "rlx/__main__.py": f"print({THE_OTHER!r})\n",
    "rlx/train.py": f"def main():\n    print({THE_OTHER!r})\n",
    "rlx-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: rlx\nVersion: 9.9\n",
    "rlx-9.9.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "rlx-9.9.dist-info/entry_points.txt": "[console_scripts]\nrlx = rlx.train:main\n",
}


@pytest.fixture
def place(installed: Path, tmp_path: Path) -> Iterator[Path]:
    """The environment with rlx, as it was again afterwards."""
    environment = installed.parent.parent
    shutil.copytree(environment, tmp_path / "as-it-was", symlinks=True)
    yield installed
    shutil.rmtree(environment)
    shutil.move(tmp_path / "as-it-was", environment)


def other_wheel(folder: Path, leave_out: tuple[str, ...] = ()) -> Path:
    wheel = folder / "rlx-9.9-py3-none-any.whl"
    record = ""
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in OTHER.keys() - set(leave_out):
            archive.writestr(name, OTHER[name])
            digest = base64.urlsafe_b64encode(hashlib.sha256(OTHER[name].encode()).digest()).decode().rstrip("=")
            record += f"{name},sha256={digest},{len(OTHER[name])}\n"
        archive.writestr("rlx-9.9.dist-info/RECORD", record + "rlx-9.9.dist-info/RECORD,,\n")
    return wheel


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RLX_HOME": str(cwd / "home")}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, encoding="utf-8"
    )


def pip_install(python: Path, *what: str | Path) -> None:
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, *what], check=True, cwd=python.parent, capture_output=True)


def test_another_distribution_that_was_installed_before_is_named(place: Path, tmp_path: Path) -> None:
    """Its files were there first, so those of both are there now, and ours answers."""
    wheel = other_wheel(tmp_path, leave_out=("rlx/__init__.py", "rlx/__main__.py"))
    command = (place.parent / "rlx").read_bytes()
    pip_install(place, wheel)
    (place.parent / "rlx").write_bytes(command)
    done = run(place.parent / "rlx", "--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[0]) == (0, "rlx")
    assert "rlx 9.9" in done.stderr
    found = json.loads(run(place.parent / "rlx", "doctor", "--json", cwd=tmp_path).stdout)["findings"]
    (finding,) = [finding for finding in found if finding["id"] == "RLX413"]
    assert "rlx 9.9" in finding["message"] and "rlx/" not in finding["message"]


def test_another_distribution_that_took_the_place_is_named_by_what_is_left(place: Path, tmp_path: Path) -> None:
    pip_install(place, other_wheel(tmp_path, leave_out=("rlx/__main__.py",)))
    assert run(place.parent / "rlx", cwd=tmp_path).stdout == f"{THE_OTHER}\n"
    done = run(place, "-m", "rlx", "--version", cwd=tmp_path)
    assert "rlx 9.9" in done.stderr
    found = json.loads(run(place, "-m", "rlx", "doctor", "--json", cwd=tmp_path).stdout)["findings"]
    (finding,) = [finding for finding in found if finding["id"] == "RLX413"]
    assert "2 files" in finding["message"]
    assert "rlx/__init__.py" in finding["message"] and "bin/rlx" in finding["message"]


def test_files_that_are_missing_since_the_other_was_removed(place: Path, tmp_path: Path) -> None:
    pip_install(place, other_wheel(tmp_path, leave_out=("rlx/__main__.py",)))
    subprocess.run([place, "-m", "pip", "--quiet", "uninstall", "-y", "rlx"], check=True, cwd=tmp_path)
    assert not (place.parent / "rlx").exists()
    done = run(place, "-m", "rlx", "status", cwd=tmp_path)
    assert done.returncode == 1
    assert ": ../../../bin/rlx, rlx/__init__.py" in done.stderr


def test_an_environment_with_rlx_alone_is_not_accused(installed: Path, tmp_path: Path) -> None:
    done = run(installed.parent / "rlx", "--version", cwd=tmp_path)
    assert done.stderr == ""
    assert "RLX413" not in run(installed.parent / "rlx", "doctor", "--json", cwd=tmp_path).stdout
