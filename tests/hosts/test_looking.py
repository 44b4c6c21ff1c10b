"""Looking runs nothing: neither what lies in the current folder nor what a recipe names is started to answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.model import Site
from rlx.planning.probing.training_environment import PACKAGES, python_question
from rlx.resources import recipes_folder
from tests.backends.conftest import config_tree as released
from tests.wheels import INSTALLED

# Names that a Python which is started to look may import; the folder's own would come first.
IMPORTED = ("json", "sitecustomize", "usercustomize", "contextlib", "types", "tarfile", "hashlib", "importlib", "email")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder whose modules leave a mark when they are imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in IMPORTED:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r})\n", encoding="utf-8"
        )
    return folder


@pytest.fixture
def executed(tmp_path: Path) -> Path:
    return tmp_path / "executed"


def rlx(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as a person types it in that folder. `python -m` would put the folder on rlx's own path."""
    command = [str(Path(sys.executable).with_name("rlx")), *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=600, encoding="utf-8"
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def recipe(folder: Path, **changes: Any) -> str:
    path = folder / "recipe.yaml"
    document = {"extends": str(recipes_folder() / "tiny-cpu.yaml"), **changes}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path.name


def planned(folder: Path, *words: str, **changes: Any) -> dict[str, str]:
    """The messages of a look at this machine, by finding."""
    done = rlx(folder, "plan", recipe(folder, **changes), "--host", "local", "--json", *words)
    return {finding["id"]: finding["message"] for finding in json.loads(done.stdout)["findings"]}


@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        ("plan", "recipe.yaml", "--host", "local"),
        ("launch", "recipe.yaml", "--dry-run"),
        ("doctor", "--recipe", "recipe.yaml"),
        ("data", "check", "recipe.yaml"),
        ("data", "tiny-cpu", "--to", "made"),
        ("validate", "recipe.yaml"),
        ("layouts", "recipe.yaml"),
        ("power", "recipe.yaml"),
        ("rehearse", "recipe.yaml", "--help"),
    ],
    ids=" ".join,
)
def test_nothing_of_the_current_folder_runs(words: tuple[str, ...], hostile: Path, executed: Path) -> None:
    recipe(hostile)
    rlx(hostile, *words)
    assert not executed.exists(), executed.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["plan", "launch", "doctor"])
def test_nothing_of_the_folder_that_a_recipe_names_runs(
    command: str, tmp_path: Path, hostile: Path, executed: Path
) -> None:
    name = recipe(tmp_path, backend={"workdir": str(hostile), "version": INSTALLED})
    words = {"plan": (name, "--host", "local"), "launch": (name, "--dry-run"), "doctor": ("--recipe", name)}
    rlx(tmp_path, command, *words[command])
    assert not executed.exists(), executed.read_text(encoding="utf-8")


def test_an_empty_entry_of_the_hosts_path_is_no_folder(hostile: Path, executed: Path, tmp_path: Path) -> None:
    """CANN's scripts end PYTHONPATH in a colon, and Python takes that for the folder that it is started in."""
    setup = tmp_path / "set_env.sh"
    setup.write_text("export PYTHONPATH=/nowhere:\n", encoding="utf-8")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/hosts.yaml").write_text(
        yaml.safe_dump({"hosts": {"local": {"setup": [str(setup)]}}}), encoding="utf-8"
    )
    name = recipe(hostile, backend={"workdir": str(hostile)})
    rlx(hostile, "doctor", "--recipe", name)
    assert not executed.exists(), executed.read_text(encoding="utf-8")


def test_a_checkout_that_nobody_installed_is_still_found(tmp_path: Path) -> None:
    (tmp_path / "checkout/verl/version").mkdir(parents=True)
    (tmp_path / "checkout/verl/__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    (tmp_path / "checkout/verl/version/version").write_text("0.7.1+own\n", encoding="utf-8")
    question = python_question(
        PACKAGES, "packages.py", Site(), sys.executable, str(tmp_path / "checkout"), "verl=version/version"
    )
    program = (Path("rlx/planning/probing/scripts") / "python.sh").read_text(encoding="utf-8")
    done = subprocess.run(["bash", "-c", program, "rlx", *question.arguments], capture_output=True, check=True)
    found = PACKAGES.parse(done.stdout.decode())
    assert found["packages"]["verl"] == "0.7.1+own"
    assert found["locations"]["verl"] == str(tmp_path / "checkout/verl")


def marking(path: Path, executed: Path, then: str = "") -> Path:
    """A program that leaves a mark when it is started."""
    path.write_text(f"#!/bin/sh\necho started >>'{executed}'\n{then}\n", encoding="utf-8")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize("look", ["plan", "launch", "doctor"])
@pytest.mark.parametrize("case", ["bash-env", "python-warnings", "tool", "program"])
def test_a_recipe_runs_nothing_by_being_looked_at(look: str, case: str, tmp_path: Path, executed: Path) -> None:
    tool = marking(tmp_path / "tool.sh", executed)
    env, backend = {
        "bash-env": ({"BASH_ENV": f"$(touch {executed})"}, {"python": "/usr/bin/ldd"}),
        "python-warnings": ({"PYTHONWARNINGS": "all:0:antigravity.x:0:0", "BROWSER": f"{tool} %s"}, {}),
        "tool": ({}, {"python": "./tool.sh", "workdir": str(tmp_path)}),
        "program": ({"PATH": str(tmp_path)}, {"python": "tool.sh"}),
    }[case]
    name = recipe(tmp_path, env=env, backend={"version": INSTALLED, **backend})
    words = {"plan": (name, "--host", "local"), "launch": (name, "--dry-run"), "doctor": ("--recipe", name)}
    rlx(tmp_path, look, *words[look])
    assert not executed.exists()


def test_what_an_interpreter_has_is_read_beside_it(tmp_path: Path, executed: Path) -> None:
    """An environment as venv makes them, whose interpreter nobody has agreed to start."""
    python = marking(installation(tmp_path / "env", "0.7.1") / "bin/python", executed)
    found = planned(tmp_path, backend={"python": str(python), "version": "0.9.1"})
    assert "local" in found["RLX402"] and "verl 0.7.1" in found["RLX402"]
    assert str(python) in found["RLX407"]
    assert not executed.exists()


def installation(folder: Path, version: str) -> Path:
    package = folder / "lib/python3.11/site-packages/verl"
    (package / "version").mkdir(parents=True)
    (package / "version/version").write_text(f"{version}\n", encoding="utf-8")
    (package / "__init__.py").touch()
    (package / "trainer/config").mkdir(parents=True)
    (package / "trainer/main_ppo.py").touch()
    for path in released(version).glob("*.yaml"):
        (package / "trainer/config" / path.name).write_bytes(path.read_bytes())
    (folder / "bin").mkdir()
    return folder


def test_a_consent_is_given_once(tmp_path: Path, executed: Path) -> None:
    python = marking(tmp_path / "python", executed, f'exec "{sys.executable}" "$@"')
    backend = {"python": str(python), "version": INSTALLED}
    assert "RLX407" in planned(tmp_path, backend=backend)
    assert not executed.exists()
    assert "RLX407" not in planned(tmp_path, "--trust", backend=backend)
    assert executed.exists()
    assert "RLX407" not in planned(tmp_path, backend=backend)
    other = marking(tmp_path / "python3", executed)
    assert "RLX407" in planned(tmp_path, backend={**backend, "python": str(other)})


def test_the_interpreter_of_the_hosts_entry_asks_nothing(tmp_path: Path, executed: Path) -> None:
    python = marking(tmp_path / "python", executed, f'exec "{sys.executable}" "$@"')
    (tmp_path / "config").mkdir()
    (tmp_path / "config/hosts.yaml").write_text(f"hosts: {{local: {{python: {python}}}}}\n", encoding="utf-8")
    assert "RLX407" not in planned(tmp_path, backend={"python": str(python), "version": INSTALLED})
    assert executed.exists()


def test_data_check_calls_a_reward_only_when_told_to(tmp_path: Path, executed: Path) -> None:
    row = {"prompt": [{"role": "user", "content": "1+1"}], "reward_model": {"ground_truth": "2"}, "data_source": "x"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / "own.py").write_text(f"open({str(executed)!r}, 'w')\ndef score(**_): return 1.0\n", encoding="utf-8")
    data = {"train": str(tmp_path / "rows.jsonl"), "val": str(tmp_path / "rows.jsonl")}
    name = recipe(tmp_path, data=data, reward={"path": "own.py", "function": "score"})
    assert "--trust" in rlx(tmp_path, "data", "check", name).stdout
    assert not executed.exists()
    assert "--trust" not in rlx(tmp_path, "data", "check", name, "--trust").stdout
    assert executed.exists()
