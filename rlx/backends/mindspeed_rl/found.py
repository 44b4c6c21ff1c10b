"""The MindSpeed-RL that a run would import: what follows from what a look at its host found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.keys import read_key_source
from rlx.backends.shared.key_table import KeyTable
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe


def table_of(found: Installation) -> KeyTable | None:
    """The keys that its classes take; None if they could not be read."""
    table = _read(found)
    return table if isinstance(table, KeyTable) else None


def found_findings(resolved: ResolvedRecipe, found: Installation) -> Iterator[Finding]:
    """Report where the host says something else than the recipe, or nothing."""
    if found.missing:
        fix = "check host and container, and that backend.workdir is a checkout of MindSpeed-RL"
        yield Finding("RLX403", Severity.ERROR, f"{found.where}: {found.missing}", fix)
    elif isinstance(known := _read(found), str):
        said = resolved.recipe.backend.version
        message = f"{found.where}: {known}; keys are checked against rlx's own list for MindSpeed-RL {said} only"
        yield Finding("RLX404", Severity.WARNING, message, "a misspelt key may show only after the start")


def _read(found: Installation) -> KeyTable | str:
    """The table, or why there is none."""
    return _read_folder(found.folder, found.where) if found.folder else found.problem


# The folder is named by the digest of its content, so it never changes.
@cache
def _read_folder(folder: Path, where: str) -> KeyTable | str:
    try:
        return read_key_source(folder, f"on {where}")
    except UsageError as problem:
        return problem.message
