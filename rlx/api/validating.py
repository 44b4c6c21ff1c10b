"""Say everything about a recipe that can be said without a host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.model import Finding, Severity

if TYPE_CHECKING:
    from pathlib import Path

    from rlx.errors import UsageError
    from rlx.recipe import RecipeFile


@dataclass(frozen=True, slots=True)
class ArmsFinding:
    """A finding, and the arms that have it; none for one of the file itself."""

    finding: Finding
    arms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validated:
    """`name` is None and `arms` is empty for a file that cannot be read as a recipe."""

    path: str
    name: str | None
    arms: tuple[str, ...]
    findings: tuple[ArmsFinding, ...]

    def is_valid(self, strict: bool = False) -> bool:
        """Tell whether it has no error, and with `strict` no warning."""
        fatal = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
        return not any(found.finding.severity in fatal for found in self.findings)


def validate(recipe: str | Path, sets: Sequence[str] = ()) -> Validated:
    """Check schema, arms, the back-end's keys and the rules of every arm of a recipe, a path or a name.

    Never raises for what is wrong with the recipe: all of it is in `findings`.
    """
    from rlx.errors import UsageError
    from rlx.recipe import load_recipe

    try:
        file = load_recipe(recipe, sets)
        return Validated(str(recipe), file.name, file.arms, tuple(_findings(file)))
    except UsageError as error:
        return Validated(str(recipe), None, (), tuple(_schema_findings(error)))


def _schema_findings(error: UsageError) -> Iterator[ArmsFinding]:
    from rlx.recipe import RecipeError

    if not isinstance(error, RecipeError):
        yield ArmsFinding(Finding("RLX002", Severity.ERROR, error.message, error.hint))
        return
    for problem in error.problems:
        yield ArmsFinding(Finding(problem.id, Severity.ERROR, str(problem), where=str(problem.place)))


def _findings(file: RecipeFile) -> Iterator[ArmsFinding]:
    """Find what preflight can without a host, once for all arms that have it. A waiver serves if one arm needs it."""
    from rlx.planning.rules import check, waives_nothing

    arms: dict[Finding, list[str]] = {}
    for arm in file.arms:
        for finding in check(file.resolve(arm)):
            arms.setdefault(finding, []).append(arm)
    for found, names in arms.items():
        if not waives_nothing(found) or len(names) == len(file.arms):
            yield ArmsFinding(found, tuple(names))
