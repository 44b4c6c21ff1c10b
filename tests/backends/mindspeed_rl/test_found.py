"""The checkout that is really there counts: its classes are read where the run would start, and nothing of it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.backends.mindspeed_rl.keys import read_config_classes
from rlx.errors import UsageError
from tests.backends.conftest import merge
from tests.backends.mindspeed_rl.conftest import BASE
from tests.command import run_rlx

CLASS = "class {name}(BaseConfig):\n    def __init__(self, config_dict):\n{body}\n"
KEYS = {
    "MegatronConfig": ("load", "of_this_fork"),
    "RLConfig": ("n_samples_per_prompt",),
    "GenerateConfig": ("dtype",),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fork of MindSpeed-RL with few keys, one of them its own; to import it would end the process."""
    folder = tmp_path / "my checkout"
    classes = folder / "mindspeed_rl/config_cls"
    classes.mkdir(parents=True)
    (folder / "mindspeed_rl/__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    for name, keys in KEYS.items():
        body = "\n".join(f"        self.{key} = None" for key in keys)
        (classes / f"{name.lower()}.py").write_text(CLASS.format(name=name, body=body), encoding="utf-8")
    (folder / "cli").mkdir()
    (folder / "cli/train_grpo.py").touch()
    return folder


def findings(folder: Path, checkout: Path, change: dict[str, Any]) -> tuple[int, str]:
    document: dict[str, Any] = {**BASE, "backend": {"workdir": str(checkout)}}
    merge(document, change)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    done = run_rlx(["launch", str(folder / "recipe.yaml"), "--dry-run"])
    assert b"Traceback" not in done.stderr and b"imported" not in done.stderr
    return done.returncode, done.stdout.decode()


def test_a_key_of_the_fork_is_known_there_and_one_that_it_lacks_is_not(tmp_path: Path, checkout: Path) -> None:
    code, said = findings(tmp_path, checkout, {"overrides": {"actor_config.of_this_fork": 1}})
    assert code == 2
    assert "RLX010" in said and "megatron_training.use_fused_rmsnorm" in said
    assert "of_this_fork" not in said


def test_a_folder_without_the_trainer_is_told(tmp_path: Path, checkout: Path) -> None:
    (checkout / "cli/train_grpo.py").unlink()
    code, said = findings(tmp_path, checkout, {})
    assert code == 2 and "RLX403" in said and "cli/train_grpo.py" in said


@pytest.mark.parametrize("text", ["class RLConfig:\n", "x" * 3 + "(", "\0", "# nothing\n"])
def test_what_is_no_configuration_class_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rl_config.py").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        read_config_classes(tmp_path)


def test_only_literals_are_taken_for_defaults(tmp_path: Path) -> None:
    body = "        self.a = 1\n        self.b = open('/etc/passwd').read()\n        self.c = config_dict.get('c', 5)"
    for name in KEYS:
        (tmp_path / f"{name}.py").write_text(CLASS.format(name=name, body=body), encoding="utf-8")
    assert read_config_classes(tmp_path)["RLConfig"] == {"a": 1, "b": None, "c": 5}
