"""The text of a recipe for another engine: changed in place, checked as a recipe, and compared with the old one."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.verl.migrate import REMOVED, Keys, Sizes, advice, override_changes, to_megatron, uneven_split
from rlx.cli.planning import finding_text
from rlx.errors import UsageError
from rlx.plan import Finding, Severity

if TYPE_CHECKING:
    from rlx.recipe import RecipeFile
    from rlx.recipe.source import Source


@dataclass(frozen=True, slots=True)
class Migrated:
    """The new text, the unified diff from the old one, and what is to be said about the result."""

    text: str
    diff: str
    remarks: tuple[str, ...]
    valid: bool


def migrated(recipe: str, sizes: Sizes, sets: Sequence[str] = (), target: Path | None = None) -> Migrated:
    """The recipe for Megatron as it would stand in `target`, by default in its old place.

    Raises UsageError for a recipe that cannot be read, or is not to be migrated.
    """
    from rlx.recipe.bundled import find_recipe
    from rlx.recipe.load import load_recipe
    from rlx.recipe.source import Source, read_source

    source = read_source(find_recipe(recipe))
    file = load_recipe(recipe)
    document = file.resolve(file.control or file.arms[0]).document
    text = source.text
    values = _set_values(sets, file.arms)
    _refuse_old_start(document["backend"], values)
    for keys, value in {**_all_changes(file, sizes), **values}.items():
        text = _changed(text, keys, value)
    if target is not None:
        text = _moved(text, source.folder, target)
    new = Source(str(target or source.name), target.parent if target else source.folder, text)
    findings, valid = _findings(new)
    diff = difflib.unified_diff(
        source.text.splitlines(keepends=True), text.splitlines(keepends=True), source.name, new.name
    )
    uneven = uneven_split(document, sizes)
    remarks = (*advice(document), *findings, *([uneven] if uneven else []))
    return Migrated(text, "".join(diff), remarks, valid and not uneven)


def _refuse_old_start(backend: Mapping[str, str | None], values: Mapping[Keys, object]) -> None:
    """A file of the fork's from which a run starts is one for FSDP, whatever stands in the recipe."""
    if (name := backend["config_name"]) and ("backend", "config_name") not in values:
        raise UsageError(
            f"backend.config_name {name}: starts from a configuration for {backend['engine']}",
            "name the fork's for Megatron, and its keys: --set backend.config_name=… --set backend.key_source=…",
        )


def _all_changes(file: RecipeFile, sizes: Sizes) -> dict[Keys, object]:
    """Of the recipe itself, and in arms what they change of it."""
    changes: dict[Keys, object] = {}
    for arm in file.arms:
        resolved = file.resolve(arm)
        overrides = resolved.document["overrides"]
        own = {key: value for key, value in overrides.items() if f"overrides.{key}" in resolved.treatment}
        changes |= {("arms", arm, *keys): value for keys, value in override_changes(own)}
        shared = {key: value for key, value in overrides.items() if key not in own}
        changes |= to_megatron({**resolved.document, "overrides": shared}, sizes)
    return changes


def _set_values(sets: Sequence[str], arms: Sequence[str]) -> dict[Keys, object]:
    """Unlike those of other commands these become text of the file, so a relative path starts from there."""
    from rlx.recipe.problems import Place
    from rlx.recipe.sets import split_key
    from rlx.recipe.tree import plain
    from rlx.recipe.yaml_tree import parse_value

    values: dict[Keys, object] = {}
    for option in sets:
        key, equals, text = option.partition("=")
        if not equals or not all(key.split(".")) or not text:
            raise UsageError(f"--set {option}: is not KEY=VALUE", "write for example --set layout.ep=2")
        values[split_key(key, arms)] = plain(parse_value(text, Place("--set"), key))
    return values


def _changed(text: str, keys: Keys, value: object) -> str:
    """What is to go, but stands in a file that this one extends, is taken back by a null."""
    from rlx.recipe.edit import with_value, without_key

    if value is not REMOVED:
        return with_value(text, keys, value)
    try:
        return without_key(text, keys)
    except KeyError:
        return with_value(text, keys, None)


def _moved(text: str, folder: Path, target: Path) -> str:
    """Under its own name, as `rlx init` names a recipe, with the files that it names reached from its new folder."""
    from rlx.recipe.edit import value_at, with_value
    from rlx.recipe.fields import NAME_PATTERN
    from rlx.recipe.local_paths import LOCAL_PATHS

    if re.fullmatch(NAME_PATTERN, target.stem):
        text = with_value(text, ("name",), target.stem)
    for path in (("extends",), *LOCAL_PATHS):
        keys = tuple(map(str, path))
        named = value_at(text, keys)
        if named is not None and not named.startswith(("/", "~")):
            text = with_value(text, keys, os.path.relpath(folder / named, target.parent))
    return text


def _findings(source: Source) -> tuple[tuple[str, ...], bool]:
    from rlx.preflight.rules import check
    from rlx.recipe.load import load_recipe

    try:
        file = load_recipe(source)
    except UsageError as problem:
        return (problem.message,), False
    found: Mapping[Finding, None] = dict.fromkeys(finding for arm in file.arms for finding in check(file.resolve(arm)))
    return tuple(map(finding_text, found)), not any(finding.severity is Severity.ERROR for finding in found)
