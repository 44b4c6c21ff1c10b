"""Show what became of a launch: each key beside what the recipe renders, as a table or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlx.cli.frame.output import console, print_text
from rlx.cli.text.table_text import fitted
from rlx.table import Column, Table

if TYPE_CHECKING:
    from rlx.api.imported_recipe import ImportedRecipe, KeyFate
    from rlx.api.recipe_from import RecipeFrom

_WIDEST = 60


def print_recipe_from(made: RecipeFrom, *, verbose: bool) -> None:
    """First how many keys the recipe renders as they were, then those that it does not; all of them if `verbose`."""
    for arm, one in made.arms.items():
        print_text(_title(arm if len(made.arms) > 1 else "", one))
        fates = (*one.keys, *one.environment)
        _print_fates(fates if verbose else [fate for fate in fates if not fate.is_equal])
        _print_findings(one)
    if made.written is not None:
        print_text(f"\n{made.written}")


def recipe_from_answer(made: RecipeFrom) -> dict[str, Any]:
    """The recipe, and of each arm every key, variable and finding."""
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


def _title(arm: str, one: ImportedRecipe) -> str:
    fates = (*one.keys, *one.environment)
    equal = sum(fate.is_equal for fate in fates)
    backend = one.document["backend"]
    counts = f"{len(one.keys)} keys, {len(one.environment)} variables: {equal} equal, {len(fates) - equal} explained"
    return f"{arm + ': ' if arm else ''}{backend['kind']} {backend['version']}, {counts}"


def _print_fates(fates: Sequence[KeyFate]) -> None:
    from rlx.api.imported_recipe import shown

    if not fates:
        return
    columns = [
        Column("", ["=" if fate.is_equal else "≠" for fate in fates]),
        Column("the launch's", [fate.key for fate in fates]),
        Column("value", [_cut(_value(fate)) for fate in fates]),
        Column(
            "the recipe's",
            [_cut(shown(fate.rendered)) if not fate.is_equal and fate.is_rendered else "" for fate in fates],
            rank=1,
        ),
        Column("in the recipe", [fate.place or "-" for fate in fates], rank=2),
    ]
    out = console()
    out.print(fitted(Table(columns), out.width))


def _value(fate: KeyFate) -> str:
    from rlx.api.imported_recipe import shown

    return "(secret)" if fate.place == "secrets" else shown(fate.written)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _print_findings(one: ImportedRecipe) -> None:
    from rlx.api.plans import finding_text

    if one.findings:
        print_text("\n".join(("", *map(finding_text, one.findings))))
