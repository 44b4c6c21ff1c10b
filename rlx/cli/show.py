"""rlx show: print one arm of a recipe in full, with origins."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rlx.cli.frame.options import ARMS, RecipeArgument, SetOption
from rlx.cli.frame.output import narrate, print_json


def show(
    recipe: RecipeArgument,
    arm: Annotated[
        str | None,
        typer.Option("--arm", help="Arm to show. Default: the control, else the first.", autocompletion=ARMS),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed instead of the recipe's.")] = None,
    sets: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of YAML.")] = False,
) -> None:
    """Print one arm of a recipe in full, with origins.

    Complete with defaults, each value with its file and line. The output is a valid recipe; the experiment of all arms
    follows as a comment.
    """
    from rlx.recipe import annotated_experiment, annotated_yaml, load_recipe

    file = load_recipe(recipe, sets or ())
    resolved = file.resolve(arm or file.control or file.arms[0], seed)
    if as_json:
        summary = {"name": file.name, "arm": resolved.arm, "arms": file.arms, "control": file.control}
        asked = file.experiment.document["experiment"] if file.experiment else None
        content = {"recipe": resolved.document, "origins": resolved.origins, "experiment": asked}
        print_json({**summary, "treatment": resolved.treatment, **content})
        return
    others = [name for name in file.arms if name != resolved.arm]
    narrate(f"arm {resolved.arm}" + (f"; other arms: {', '.join(others)}" if others else ""))
    sys.stdout.write(annotated_yaml(resolved) + annotated_experiment(file))
