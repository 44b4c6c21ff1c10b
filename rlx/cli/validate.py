"""rlx validate: everything that can be said about recipes without a host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rlx.errors import UsageError
    from rlx.plan import Finding
    from rlx.recipe import RecipeFile


def validate(
    recipes: Annotated[
        list[str], typer.Argument(help="Recipe files, names of bundled recipes, or - for standard input.")
    ],
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value, such as train.lr=1e-6.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> None:
    """Check recipes: schema, arms, the back-end's keys, and the rules (rlx explain ID).

    Every arm of every recipe is checked, and everything that is wrong is told at once. Exit 2 if one is invalid.
    """
    from rlx.cli.frame.output import print_json
    from rlx.errors import ExitCode

    rows = [_row(recipe, sets or (), strict) for recipe in recipes]
    if as_json:
        print_json({"recipes": rows})
    else:
        for row in rows:
            _print(row)
    if not all(row["valid"] for row in rows):
        raise typer.Exit(ExitCode.USAGE)


def _row(recipe: str, sets: Sequence[str], strict: bool) -> dict[str, Any]:
    """One recipe as `--json` shows it. Never raises: several recipes are all reported."""
    from rlx.errors import UsageError
    from rlx.recipe import load_recipe

    row: dict[str, Any] = {"path": recipe, "name": None, "arms": (), "findings": []}
    try:
        file = load_recipe(recipe, sets)
        row.update(name=file.name, arms=file.arms, findings=_findings(file))
    except UsageError as error:
        row["findings"] = list(_schema_findings(error))
    fatal = {"error", "warning"} if strict else {"error"}
    return {**row, "valid": not any(finding["severity"] in fatal for finding in row["findings"])}


def _schema_findings(error: UsageError) -> Iterator[dict[str, Any]]:
    from rlx.recipe import RecipeError

    if not isinstance(error, RecipeError):
        yield _finding("RLX002", "error", error.message, error.hint, "", ())
        return
    for problem in error.problems:
        yield _finding(problem.id, "error", str(problem), "", str(problem.place), ())


def _findings(file: RecipeFile) -> list[dict[str, Any]]:
    """Find what preflight can without a host, once for all arms that have it. A waiver serves if one arm needs it."""
    from rlx.preflight.rules import check, waives_nothing

    arms: dict[Finding, list[str]] = {}
    for arm in file.arms:
        resolved = file.resolve(arm)
        for finding in check(resolved):
            arms.setdefault(finding, []).append(arm)
    return [
        _finding(found.id, found.severity.value, found.message, found.fix, found.where, names)
        for found, names in arms.items()
        if not waives_nothing(found) or len(names) == len(file.arms)
    ]


def _finding(id: str, severity: str, message: str, fix: str, where: str, arms: Sequence[str]) -> dict[str, Any]:
    return {"id": id, "severity": severity, "message": message, "fix": fix, "where": where, "arms": arms}


def _print(row: dict[str, Any]) -> None:
    arms = "" if row["arms"] in ((), ("main",)) else f" (arms {', '.join(row['arms'])})"
    print(f"{row['path']}: {'valid' if row['valid'] else 'invalid'}{arms}")
    for finding in row["findings"]:
        some = 0 < len(finding["arms"]) < len(row["arms"]) and not finding["where"].startswith("arm ")
        of_arm = f"arm {', '.join(finding['arms'])}: " if some else ""
        where = f"{finding['where']}: " if finding["where"] and finding["where"] not in finding["message"] else ""
        print(f"  {finding['id']} {finding['severity']}: {of_arm}{where}{finding['message']}")
        if finding["fix"]:
            print(f"    fix: {finding['fix']}")
