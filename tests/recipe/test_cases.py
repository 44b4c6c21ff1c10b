"""Recipe files as people write them: each folder of tests/cases/recipe holds one and what rlx must make of it.

A case has error.txt, or resolved.json with the treatment, the origins and the document of each arm. With
RLX_UPDATE_CASES=1 what rlx says now is written; read the difference before you keep it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rlx.errors import UsageError
from rlx.recipe import load_recipe
from tests.conftest import CASES

FOLDERS = sorted(path for path in (CASES / "recipe").iterdir() if path.is_dir())


def said_of(folder: Path) -> tuple[str, str]:
    try:
        file = load_recipe("recipe.yaml")
    except UsageError as error:
        return "error.txt", f"{error.message}\n" + (f"fix: {error.hint}\n" if error.hint else "")
    arms = {}
    for arm in file.arms:
        resolved = file.resolve(arm)
        text = json.dumps(resolved.document).replace(str(folder), "FOLDER")
        written = {key: where for key, where in resolved.origins.items() if where != "default"}
        arms[arm] = {"treatment": resolved.treatment, "origins": written, "document": json.loads(text)}
    asked = file.experiment
    seeds = {"seeds": asked.seeds, "spare_seeds": asked.spare_seeds} if asked else {}
    said = {"control": file.control, "arms": arms, **(asked.document if asked else {}), **seeds}
    return "resolved.json", json.dumps(said, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    name, said = said_of(folder)
    if os.environ.get("RLX_UPDATE_CASES"):
        (folder / name).write_text(said, encoding="utf-8")
    assert said == (folder / name).read_text(encoding="utf-8")


def test_a_case_expects_one_thing() -> None:
    for folder in FOLDERS:
        assert (folder / "error.txt").exists() != (folder / "resolved.json").exists(), folder.name
        assert folder.name.startswith("ok-") == (folder / "resolved.json").exists(), folder.name
