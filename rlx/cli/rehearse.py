"""rlx rehearse: run a two-step smoke test of a recipe with a tiny model."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.completion import RECIPES
from rlx.errors import ExitCode


def rehearse(
    recipe: Annotated[
        str,
        typer.Argument(
            help="Recipe file, name of a recipe that comes with rlx, or - for stdin.", autocompletion=RECIPES
        ),
    ],
    arm: Annotated[str | None, typer.Option(help="The arm to rehearse. Default: the control.")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="What generates: vllm (its CPU build), or cpu (rlx's own). Default: as there is.")
    ] = None,
    timeout: Annotated[str, typer.Option(help="Give up after this long (90s, 10m).")] = "15m",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the run's folder even if everything passed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Run a two-step smoke test of a recipe with a tiny model.

    On this machine's CPU: the real verl 0.9.1 with the recipe's overrides, reward function, data schema and noise; a
    tiny random model of the same class, and a smaller batch. Reports what was changed, what passed, and what a CPU
    cannot show. Exit code 5 if it fails.
    """
    from rlx.api.rehearsing import rehearse as rehearse_recipe
    from rlx.cli.frame.ages import parse_age
    from rlx.cli.frame.output import narrate, print_json, print_text
    from rlx.cli.text.rehearse_text import text_lines

    limit_s = parse_age(timeout)
    done = rehearse_recipe(recipe, arm, sets=sets or (), engine=engine, limit_s=limit_s, keep=keep, tell=narrate)
    if as_json:
        print_json(done.answer())
    else:
        print_text("\n".join(text_lines(done)))
    if not done.result.passed:
        raise typer.Exit(ExitCode.PREFLIGHT_FAILED)
