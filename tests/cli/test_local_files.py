"""Files of this machine that a recipe or an option names: none hangs rlx, fills memory, or leaves in silence."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recipe.conftest import RECIPE

# What numpy and pydantic reserve of addresses is many times what they use.
MOST_ADDRESSES = 3 << 30
DATA = 200 << 20

REWARD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):\n    return 1.0\n"


def rlx(*arguments: str | Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command that has two minutes and 200 MB of memory of its own for what it reads."""
    done = subprocess.run(
        [sys.executable, "-m", "rlx", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **({"HOME": str(home)} if home else {})},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (DATA + (200 << 20), MOST_ADDRESSES)),
        encoding="utf-8",
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "MemoryError" not in done.stdout + done.stderr
    assert done.returncode in (0, 1, 2, 5), f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _folder(path: Path) -> None:
    path.mkdir()


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**12)


def _minus(path: Path) -> None:
    path.write_text("-" * 200_000, encoding="utf-8")


def _names(path: Path) -> None:
    path.write_text("[" + "a," * 2_000_000 + "]", encoding="utf-8")


def _merges(path: Path) -> None:
    lines = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 40))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _brackets(path: Path) -> None:
    path.write_text("[" * 500_000, encoding="utf-8")


def _lists(path: Path) -> None:
    path.write_text('{"plans": [' + "[]," * 8_000_000 + "[]]}", encoding="utf-8")


HOSTILE = (_pipe, _device, _folder, _huge, _minus, _names, _merges, _brackets, _lists)
Make = Callable[[Path], None]


NAMED = {
    "reward.path": "reward: {path: odd}",
    "key_source": 'backend: {kind: verl, version: "0.7.1", key_source: odd}',
    "a folder as key_source": 'backend: {kind: verl, version: "0.7.1", key_source: keys}',
    "classes as key_source": 'backend: {kind: mindspeed-rl, version: "2.3.0", engine: megatron, key_source: classes}',
    "extends": "extends: odd",
}


@pytest.mark.parametrize("section", NAMED.values(), ids=NAMED)
def test_a_file_that_a_recipe_names(section: str, tmp_path: Path) -> None:
    recipes = []
    for make in HOSTILE:
        folder = tmp_path / make.__name__
        (folder / "keys").mkdir(parents=True)
        (folder / "classes").mkdir()
        for name in ("odd", "keys/ppo_trainer.yaml", "classes/odd.py"):
            make(folder / name)
        (folder / "base.yaml").write_text(RECIPE, encoding="utf-8")
        recipes.append(folder / "recipe.yaml")
        base = "" if section.startswith("extends") else "extends: base.yaml\n"
        recipes[-1].write_text(f"version: 1\n{base}{section}\n", encoding="utf-8")
    done = rlx("validate", "--json", *recipes)
    told = {Path(one["path"]).parent.name: one for one in json.loads(done.stdout)["recipes"]}
    assert len(told) == len(HOSTILE)
    for make, one in told.items():
        assert not one["valid"], (make, one)


def test_source_with_a_name_of_thousands_of_parts(tmp_path: Path) -> None:
    """Python's parser takes 480 MB for it."""
    (tmp_path / "odd").write_text("import transformers" + ".transformers" * 9000 + "\n" + REWARD, encoding="utf-8")
    (tmp_path / "base.yaml").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text("version: 1\nextends: base.yaml\nreward: {path: odd}\n", encoding="utf-8")
    assert "1,000" in rlx("validate", tmp_path / "recipe.yaml").stdout


@pytest.mark.parametrize("make", [_pipe, _device, _huge], ids=lambda make: make.__name__)
def test_a_grader_for_afterwards(make: Make, tmp_path: Path) -> None:
    make(tmp_path / "odd")
    (tmp_path / "recipe.yaml").write_text(
        f"{RECIPE}eval: {{post: {{rows: /d/x.parquet, reward: {{path: odd}}}}}}\n", encoding="utf-8"
    )
    assert "odd" in rlx("plan", tmp_path / "recipe.yaml", "--arm", "baseline").stderr


def test_a_folder_of_many_large_files(tmp_path: Path) -> None:
    text = "".join(f"k%d_{n}: {'x' * 900}\n" for n in range(4_000))
    (tmp_path / "keys").mkdir()
    for n in range(40):
        (tmp_path / "keys" / f"c{n}.yaml").write_text(text.replace("%d", str(n)), encoding="utf-8")
    names = "".join(f"  - c{n}\n" for n in range(40))
    (tmp_path / "keys" / "ppo_trainer.yaml").write_text(f"defaults:\n{names}", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    done = rlx("validate", tmp_path / "recipe.yaml", "--set", f"backend.key_source={tmp_path / 'keys'}")
    assert done.returncode == 2
    assert "MiB together" in done.stdout


@pytest.mark.parametrize("make", [_pipe, _device, _folder, _huge, _lists], ids=lambda make: make.__name__)
def test_a_file_of_secrets_a_plan_and_a_log(make: Make, tmp_path: Path) -> None:
    make(tmp_path / "odd")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("device: npu", "device: cpu"), encoding="utf-8")
    launch = rlx("launch", tmp_path / "recipe.yaml", "--secret-file", tmp_path / "odd", "-y")
    plan = rlx("launch", "--plan", tmp_path / "odd")
    assert plan.returncode == 2
    assert launch.returncode != 0
    if make is not _huge:
        # A sparse log is one: it is copied as it is.
        taken = rlx("import", tmp_path / "odd", "--name", "x")
        assert taken.returncode in (1, 2)


def test_a_pipe_of_secrets_is_refused_at_once(tmp_path: Path) -> None:
    from rlx.cli.frame.secret_values import secret_values
    from rlx.errors import UsageError

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=str(tmp_path / "pipe")):
        secret_values(str(tmp_path / "pipe"))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A cloned folder below a home that has secrets."""
    home = tmp_path / "person"
    (home / "work/clone").mkdir(parents=True)
    (home / ".env").write_text("TOKEN = 'of the person'\n", encoding="utf-8")
    (home / ".aws").mkdir()
    (home / ".aws/credentials.py").write_text("KEY = 1\n", encoding="utf-8")
    (home / "work/private.py").write_text(REWARD, encoding="utf-8")
    (home / "work/private.py").chmod(0o600)
    (home / "work/shared.py").write_text(REWARD, encoding="utf-8")
    (home / "work/clone/own.py").write_text(REWARD, encoding="utf-8")
    (home / "work/clone/own.py").chmod(0o600)
    (home / "work/clone/link.py").symlink_to(home / ".aws/credentials.py")
    return home / "work/clone"


def findings(clone: Path, path: str, *options: str | Path) -> list[tuple[str, str]]:
    """Severity and message of what is said of files that travel."""
    home = clone.parent.parent
    (clone / "recipe.yaml").write_text(RECIPE.replace("reward: gsm8k", f"reward: {{path: {path}}}"), encoding="utf-8")
    done = rlx("plan", clone / "recipe.yaml", "--arm", "baseline", "--json", *options, home=home)
    found = json.loads(done.stdout)["findings"]
    return [(one["severity"], one["message"]) for one in found if one["id"] == "RLX026"]


@pytest.mark.parametrize("path", ["~/.env", "../../.aws/credentials.py", "link.py", "../private.py"])
def test_a_private_file_does_not_travel_because_a_recipe_names_it(clone: Path, path: str) -> None:
    ((severity, message),) = findings(clone, path)
    assert severity == "error"
    assert Path(path).name in message
    launched = rlx("launch", clone / "recipe.yaml", "--arm", "baseline", "--dry-run", home=clone.parent.parent)
    assert launched.returncode in (2, 5)
    assert "RLX026" in launched.stdout


@pytest.mark.parametrize("path", ["../../.aws/credentials.py", "link.py", "../private.py"])
def test_it_travels_where_the_person_names_it(clone: Path, path: str) -> None:
    ((severity, _),) = findings(clone, path, "--send", clone / path)
    assert severity == "warning"


def test_naming_one_file_lets_no_other_travel(clone: Path) -> None:
    ((severity, _),) = findings(clone, "link.py", "--send", clone / "../private.py")
    assert severity == "error"


def test_a_recipe_cannot_waive_it(clone: Path) -> None:
    severities = [severity for severity, _ in findings(clone, "~/.env", "--set", "waive={RLX026: it is fine}")]
    assert severities == ["error"]


def test_a_file_that_everybody_may_read_is_named(clone: Path) -> None:
    ((severity, message),) = findings(clone, "../shared.py")
    assert severity == "warning"
    assert "shared.py" in message


def test_the_own_file_of_a_recipe_is_its_own(clone: Path) -> None:
    assert findings(clone, "own.py") == []
