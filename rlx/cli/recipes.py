"""rlx recipes: list the recipes that come with rlx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.output import console, print_json
from rlx.cli.text.table_text import fitted
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.recipe import BundledRecipe


def recipes(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """List the recipes that come with rlx.

    `rlx show NAME` prints one, `rlx init --from NAME` copies one.
    """
    from rlx.recipe import bundled_recipes

    rows = [_row(recipe) for recipe in bundled_recipes()]
    if as_json:
        print_json({"recipes": rows})
    else:
        _print(rows)


def _row(recipe: BundledRecipe) -> dict[str, Any]:
    from rlx.recipe import load_recipe

    file = load_recipe(recipe.path)
    return {
        "name": recipe.name,
        "description": recipe.description,
        "arms": file.arms,
        "control": file.control,
        "path": str(recipe.path),
    }


def _print(rows: list[dict[str, Any]]) -> None:
    out = console()
    columns = [
        Column("name", [row["name"] for row in rows]),
        Column("arms", [", ".join(row["arms"]) for row in rows], rank=2, flows=True),
        # The first sentence; the rest is in the file and in --json.
        Column("description", [row["description"].split(". ")[0].rstrip(".") for row in rows], rank=1, flows=True),
    ]
    out.print(fitted(Table(columns), out.width))
