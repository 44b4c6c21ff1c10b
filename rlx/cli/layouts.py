"""rlx layouts: list valid parallel layouts with their memory."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.completion import RECIPES


def layouts(
    recipe: Annotated[
        str,
        typer.Argument(
            help="Recipe file, name of a recipe that comes with rlx, or - for stdin.", autocompletion=RECIPES
        ),
    ],
    devices: Annotated[int | None, typer.Option(min=1, help="Devices to split over. Default: the recipe's.")] = None,
    memory: Annotated[float | None, typer.Option(min=1, help="GiB of a device. Default for NPUs: 64.")] = None,
    arm: Annotated[str | None, typer.Option(help="Arm. Default: the first.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of text, with every layout.")
    ] = False,
) -> None:
    """List valid parallel layouts with their memory.

    Layouts that fit come first, of them those with the least communication. Below: sizes that do not divide, and why.
    """
    from rlx.api.layouts import layouts as list_layouts
    from rlx.cli.frame.output import print_json
    from rlx.cli.text.layouts_text import layouts_answer, print_layouts

    listed = list_layouts(recipe, devices=devices, memory_gib=memory, arm=arm, sets=set_ or ())
    if as_json:
        print_json(layouts_answer(listed.job, listed.found))
    else:
        print_layouts(listed.recipe, listed.job, listed.found)
