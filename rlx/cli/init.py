"""rlx init: write a recipe: a starter, or one made of your script or log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.output import console, narrate, print_json, print_text
from rlx.cli.frame.streams import shortened
from rlx.cli.text.table_text import fitted
from rlx.errors import UsageError
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.api.imported_recipe import ImportedRecipe, KeyFate
    from rlx.api.recipe_from import RecipeFrom

_DEFAULT = "recipe.yaml"
_WIDEST = 60


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
        typer.Option("--verbose", "-v", help="All keys of the launch, also those that the recipe renders equally."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: the recipe, and how each key was mapped.")
    ] = False,
) -> None:
    """Write a recipe: a starter, or one made of your script or log.

    A launch is read, never run. Each of its keys is checked against what the recipe renders; -v shows the table of all
    keys.
    """
    from rlx.api.found_launch import is_launch
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


def _refuse_options(arms: list[str] | None, version: str, as_json: bool) -> None:
    for option, given in (("--arm", arms), ("--backend-version", version), ("--json", as_json)):
        if given:
            raise UsageError(f"{option} goes with --from FILE", "name the script, configuration or log that you have")


def _of_launch(source: str, target: Path, arms: list[str], version: str, as_json: bool, verbose: bool) -> None:
    from rlx.api.recipe_from import recipe_from

    made = recipe_from(source, target, arms=_named(arms), version=version)
    if as_json:
        print_json(recipe_from_answer(made))
    else:
        print_recipe_from(made, verbose=verbose)
        narrate(f"review it, then: rlx validate {target}")


def _named(arms: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for arm in arms:
        name, equals, file = arm.partition("=")
        if not (name and equals and file) or name in found:
            raise UsageError(f"--arm {arm}: is not NAME=FILE, each name once", "write for example --arm aqn=run_aqn.sh")
        found[name] = file
    return found


def print_recipe_from(made: RecipeFrom, *, verbose: bool) -> None:
    """Print how many keys the recipe renders equally, then those that differ, or all of them if `verbose`."""
    for arm, one in made.arms.items():
        print_text(_title(arm if len(made.arms) > 1 else "", one))
        fates = (*one.keys, *one.environment)
        _print_fates(fates if verbose else [fate for fate in fates if not fate.is_equal])
        _print_findings(one)
    if made.written is not None:
        print_text(f"\n{made.written}")


def _title(arm: str, imported: ImportedRecipe) -> str:
    fates = (*imported.keys, *imported.environment)
    equal = sum(fate.is_equal for fate in fates)
    backend = imported.document["backend"]
    launch = f"{len(imported.keys)} keys, {len(imported.environment)} variables"
    counts = f"{equal} equal, {len(fates) - equal} explained"
    return f"{arm + ': ' if arm else ''}{backend['kind']} {backend['version']}, {launch}: {counts}"


def _print_fates(fates: Sequence[KeyFate]) -> None:
    from rlx.api.imported_recipe import shown

    if not fates:
        return
    columns = [
        Column("", ["=" if fate.is_equal else "≠" for fate in fates]),
        Column("the launch's", [fate.key for fate in fates]),
        Column("value", [shortened(" ".join(_value(fate).split()), _WIDEST) for fate in fates]),
        Column(
            "the recipe's",
            [
                shortened(" ".join(shown(fate.rendered).split()), _WIDEST)
                if not fate.is_equal and fate.is_rendered
                else ""
                for fate in fates
            ],
            rank=1,
        ),
        Column("in the recipe", [fate.place or "-" for fate in fates], rank=2),
    ]
    out = console()
    out.print(fitted(Table(columns), out.width))


def _value(fate: KeyFate) -> str:
    from rlx.api.imported_recipe import shown

    return "(secret)" if fate.place == "secrets" else shown(fate.written)


def _print_findings(imported: ImportedRecipe) -> None:
    from rlx.model import finding_text

    if imported.findings:
        print_text("\n".join(("", *map(finding_text, imported.findings))))


def recipe_from_answer(made: RecipeFrom) -> dict[str, Any]:
    """Return the recipe, and every key, variable and finding of each arm."""
    arms = {
        arm: {
            "keys": list(map(_fate, one.keys)),
            "environment": list(map(_fate, one.environment)),
            "findings": one.findings,
        }
        for arm, one in made.arms.items()
    }
    return {"written": str(made.written) if made.written else None, "recipe": made.text, "arms": arms}


def _fate(fate: KeyFate) -> dict[str, Any]:
    return {
        "key": fate.key,
        "script": fate.written,
        "recipe": fate.rendered if fate.is_rendered else None,
        "rendered": fate.is_rendered,
        "place": fate.place,
        "equal": fate.is_equal,
        "reason": fate.reason,
    }
