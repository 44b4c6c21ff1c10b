"""rlx init: write a recipe: a starter, or one made of your script or log."""

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
        str,
        typer.Option(
            "--from",
            metavar="NAME|FILE",
            help="Bundled recipe to copy (`rlx recipes`), or what you launch today: a bash script, a line in quotes, a "
            "configuration as YAML, a log that shows one, - for stdin.",
        ),
    ] = "starter",
    arms: Annotated[
        list[str] | None,
        typer.Option("--arm", metavar="NAME=FILE", help="A further launch: what differs becomes an arm of that name."),
    ] = None,
    version: Annotated[
        str, typer.Option("--backend-version", help="The back-end's version. Default: the newest that fits.")
    ] = "",
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="All keys of the launch, also those rendered equally."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: the recipe, and what became of each key.")
    ] = False,
) -> None:
    """Write a recipe: a starter, or one made of your script or log.

    A launch is read, never run. Each of its keys is checked against what the recipe renders; the table of all keys is
    behind -v.
    """
    from rlx.api.recipe_source import is_launch
    from rlx.cli.frame.output import narrate
    from rlx.recipe import start_recipe

    target = Path(path) / _DEFAULT if path.endswith("/") else Path(path)
    if is_launch(source):
        _of_launch(source, target, arms or [], version, as_json, verbose)
        return
    _refuse_options(arms, version, as_json)
    written = start_recipe(source, target)
    for file in written:
        print(file)
    narrate(f"edit it, then: rlx validate {written[0]}")


def _of_launch(source: str, target: Path, arms: list[str], version: str, as_json: bool, verbose: bool) -> None:
    from rlx.api.recipe_from import recipe_from
    from rlx.cli.frame.output import narrate, print_json
    from rlx.cli.text.recipe_from_text import print_recipe_from, recipe_from_answer

    made = recipe_from(source, target, arms=_named(arms), version=version)
    if as_json:
        print_json(recipe_from_answer(made))
    else:
        print_recipe_from(made, verbose=verbose)
        narrate(f"review it, then: rlx validate {target}")


def _named(arms: list[str]) -> dict[str, str]:
    from rlx.errors import UsageError

    found: dict[str, str] = {}
    for arm in arms:
        name, equals, file = arm.partition("=")
        if not (name and equals and file) or name in found:
            raise UsageError(f"--arm {arm}: is not NAME=FILE, each name once", "write for example --arm aqn=run_aqn.sh")
        found[name] = file
    return found


def _refuse_options(arms: list[str] | None, version: str, as_json: bool) -> None:
    from rlx.errors import UsageError

    for option, given in (("--arm", arms), ("--backend-version", version), ("--json", as_json)):
        if given:
            raise UsageError(f"{option} goes with --from FILE", "name the script, configuration or log that you have")
