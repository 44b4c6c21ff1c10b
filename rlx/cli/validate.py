"""rlx validate: check recipes: schema, arms, back-end keys and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import RECIPES, SetOption
from rlx.cli.frame.output import print_json, print_text
from rlx.errors import ExitCode

if TYPE_CHECKING:
    from rlx.api.recipes import Validated


def validate(
    recipes: Annotated[
        list[str],
        typer.Argument(help="Recipe files, names of bundled recipes, or - for standard input.", autocompletion=RECIPES),
    ],
    sets: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> None:
    """Check recipes: schema, arms, back-end keys and rules.

    Every arm of every recipe is checked, and all findings are reported at once; `rlx explain ID` explains each. Exit
    code 2 if a recipe is invalid.
    """
    from rlx.api.recipes import validate as validate_recipe

    rows = [_row(validate_recipe(recipe, sets or ()), strict) for recipe in recipes]
    if as_json:
        print_json({"recipes": rows})
    else:
        for row in rows:
            _print(row)
    if not all(row["valid"] for row in rows):
        raise typer.Exit(ExitCode.USAGE)


def _row(validated: Validated, strict: bool) -> dict[str, Any]:
    """Return one recipe as the JSON shows it."""
    from rlx.model import to_jsonable

    findings = [{**to_jsonable(found.finding), "arms": found.arms} for found in validated.findings]
    row = {"path": validated.path, "name": validated.name, "arms": validated.arms, "findings": findings}
    return {**row, "valid": validated.is_valid(strict)}


def _print(row: dict[str, Any]) -> None:
    from rlx.model import Finding, fix_line, message_text

    arms = "" if row["arms"] in ((), ("main",)) else f" (arms {', '.join(row['arms'])})"
    print_text(f"{row['path']}: {'valid' if row['valid'] else 'invalid'}{arms}")
    for finding in row["findings"]:
        some = 0 < len(finding["arms"]) < len(row["arms"]) and not finding["where"].startswith("arm ")
        of_arm = f"arm {', '.join(finding['arms'])}: " if some else ""
        where = f"{finding['where']}: " if finding["where"] and finding["where"] not in finding["message"] else ""
        shown = Finding.recorded(**finding)
        print_text(f"  {shown.severity} {shown.id} {of_arm}{where}{message_text(shown)}")
        if shown.fix:
            print_text(f"    {fix_line(shown)}")
