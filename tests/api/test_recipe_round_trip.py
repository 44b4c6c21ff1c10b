"""A recipe's own launch, read back, must become a recipe that renders the same, key by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.api.imported_recipe import UNKNOWN
from rlx.api.recipe_from import CONTROL, recipe_from
from rlx.backends.protocol import load_backend
from rlx.backends.registry import optional_part
from rlx.backends.shared.users_launches import same
from rlx.errors import UsageError
from rlx.model import Site
from rlx.recipe import bundled_recipes, load_recipe
from rlx.recipe.source import RecipeSource

# The name of a run holds its arm, of which a recipe that was read back has none.
NAMES = {"trainer.experiment_name"}
RECIPES = [recipe.path for recipe in bundled_recipes()]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_key_comes_back(path: Path, tmp_path: Path) -> None:
    file = load_recipe(path)
    for arm in file.arms:
        resolved = file.resolve(arm)
        backend = resolved.recipe.backend
        part = optional_part(backend.kind, "users_keys")
        for written in load_backend(backend.kind).plan(resolved, Site()).files:
            if written.path in ("launch.sh", "config/mindspeed_rl.yaml"):
                (tmp_path / Path(written.path).name).write_text(written.content, encoding="utf-8")
        script = str(tmp_path / "launch.sh")
        if part is None or backend.entrypoint:
            # No launch of a back-end without this part, and none of a fork without a table of keys, becomes a recipe.
            with pytest.raises(UsageError):
                recipe_from(script, version=backend.version)
            continue
        made = recipe_from(script, version=backend.version)
        again = load_recipe(RecipeSource("again", tmp_path, made.text)).resolve("main")
        before, after = part.rendered(resolved), part.rendered(again)
        assert before.keys() == after.keys()
        differing = {key for key, one in before.items() if not same(one.value, after[key].value)}
        assert differing <= NAMES
        fates = made.arms[CONTROL].keys
        assert {fate.key for fate in fates if not fate.is_equal} <= NAMES
        assert not any(fate.reason == UNKNOWN for fate in fates)
        assert resolved.recipe.env.items() <= again.recipe.env.items()
