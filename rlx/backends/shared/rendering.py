"""A recipe and the back-end that it is written for: what every topic of a rendering may look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.shared.key_table import KeyTable

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class Rendering:
    """A resolved recipe and the keys of the back-end's version: the one found on the host, else the recipe's."""

    resolved: ResolvedRecipe
    recipe: Recipe
    table: KeyTable
    version: str
