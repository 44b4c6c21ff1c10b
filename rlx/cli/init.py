"""rlx init: a recipe to start from, written where there is none yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_DEFAULT = "recipe.yaml"


def init(
    path: Annotated[
        str, typer.Argument(help="File to write, or folder/ for a recipe.yaml in it; nothing is ever overwritten.")
    ] = _DEFAULT,
    source: Annotated[
        str, typer.Option("--from", metavar="NAME", help="Bundled recipe to copy (`rlx recipes`).")
    ] = "starter",
) -> None:
    """Write a recipe to start from."""
    from rlx.cli.frame.output import narrate
    from rlx.recipe import start_recipe

    written = start_recipe(source, Path(path) / _DEFAULT if path.endswith("/") else Path(path))
    for file in written:
        print(file)
    narrate(f"edit it, then: rlx validate {written[0]}")
