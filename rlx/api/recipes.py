"""Take a recipe as a value, or load it by path or name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.recipe import RecipeFile

Recipe: TypeAlias = Union["RecipeFile", str, Path]
"""What `load_recipe` returns, the path of a recipe file, the name of a bundled one, or `-` for standard input."""


def recipe_file(recipe: Recipe, sets: Sequence[str] = ()) -> RecipeFile:
    """Load the recipe unless it is loaded already. Raises UsageError, also for `sets` that come too late."""
    from rlx.recipe import RecipeFile, load_recipe

    if not isinstance(recipe, RecipeFile):
        return load_recipe(recipe, sets)
    if sets:
        raise UsageError(f"{recipe.path} is loaded already", "give the options to load_recipe")
    return recipe
