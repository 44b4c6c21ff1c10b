"""The verl that a run would import: the question to its host, and what follows from the answer.

A fork has keys that no table of rlx lists, and a container often another version than the recipe says. Hydra goes by
the files that are there; so does rlx, wherever somebody looked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.shared.key_table import KeyTable
from rlx.backends.verl.keys import TRAINERS, numbers, read_key_source
from rlx.backends.verl.trainers import config_of
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe


def table_of(resolved: ResolvedRecipe, found: Installation) -> KeyTable | None:
    """The keys that Hydra will know there; None if they could not be read."""
    table = _read(resolved, found)
    return table if isinstance(table, KeyTable) else None


def found_findings(resolved: ResolvedRecipe, found: Installation) -> Iterator[Finding]:
    """Report where the host says something else than the recipe, or nothing."""
    said, known = resolved.recipe.backend.version, _read(resolved, found)
    if found.missing:
        yield Finding("RLX403", Severity.ERROR, f"{found.where}: {found.missing}", _MISSING_FIX)
        return
    if found.version and not _same(said, found.version):
        message = f"backend.version {said}, but {found.where} has verl {found.version}"
        counts = f"; keys are checked against {found.version}" if isinstance(known, KeyTable) else ""
        fix = f'write backend.version: "{found.version}", or name the right host, container, workdir or python'
        yield Finding("RLX402", Severity.WARNING, message + counts, fix)
    if isinstance(known, str):
        message = f"{found.where}: {known}; keys are checked against rlx's own list for verl {said} only"
        yield Finding("RLX404", Severity.WARNING, message, "a misspelt key may show only after the start")


_MISSING_FIX = "check host and container, and backend.python, workdir and entrypoint"


def _read(resolved: ResolvedRecipe, found: Installation) -> KeyTable | str:
    """The table, or why there is none."""
    if found.folder is None:
        return found.problem
    backend = resolved.recipe.backend
    name, config = f"{found.version} on {found.where}", config_of(resolved.recipe, found.version)
    table = _read_folder(found.folder, TRAINERS[backend.engine == "megatron"], config)
    return replace(table, version=name) if isinstance(table, KeyTable) else table


# The folder is named by the digest of its content, so it never changes.
@cache
def _read_folder(folder: Path, trainer: str, config_name: str | None) -> KeyTable | str:
    try:
        return read_key_source(folder, trainer, config_name)
    except UsageError as problem:
        return problem.message


def _same(said: str, found: str) -> bool:
    """0.7 is 0.7.1, and 0.7.1+aqn is, too; what no number tells apart is the same."""
    return all(one == other for one, other in zip(numbers(said), numbers(found), strict=False))
