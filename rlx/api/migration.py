"""Change the text of a recipe for another engine, in place, check it as a recipe, and compare it with the old one."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rlx.backends.registry import optional_part, parts
from rlx.backends.shared.migration import REMOVED, Keys, MigrationSizes
from rlx.errors import RlxError, UsageError
from rlx.local_files import is_folder
from rlx.model import Finding, Severity
from rlx.renamed_keys import current_key

if TYPE_CHECKING:
    from rlx.recipe import RecipeFile
    from rlx.recipe.source import RecipeSource


@dataclass(frozen=True, slots=True)
class Migrated:
    """The new text, the unified diff from the old one, and what is to be said about the result."""

    text: str
    diff: str
    advice: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def is_valid(self) -> bool:
        return not self.count(Severity.ERROR)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def migrate(
    recipe: str,
    *,
    tp: int | None = None,
    pp: int = 1,
    ep: int = 1,
    micro_batch_size: int | None = None,
    sets: Sequence[str] = (),
    target: Path | None = None,
) -> Migrated:
    """Change an FSDP recipe, a path or a name, to Megatron; write it into `target`, a new file, if one is named.

    Parallel sizes count devices; without `tp` it is the first of 4, 2 and 1 about which there is least to be said.
    `micro_batch_size` counts samples a device and pass, by default half of before. The result is checked as by
    `validate`, and what is not `is_valid` is not written. Raises UsageError for a recipe that cannot be read or is
    not to be migrated, and where `target` exists already.
    """
    if target is not None and target.exists():
        raise UsageError(f"{target}: exists already, nothing was written", "name another file, or move this one")
    result = migrated(recipe, MigrationSizes(tp, pp, ep, micro_batch_size), sets, target)
    if target is not None and result.is_valid:
        _write(target, result.text)
    return result


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise RlxError(f"{path}: cannot be written: {problem.strerror}", "name another file") from None


def migrated(recipe: str, sizes: MigrationSizes, sets: Sequence[str] = (), target: Path | None = None) -> Migrated:
    """The recipe for Megatron as it would stand in `target`, by default in its old place.

    Without `sizes.tp` it is the first of the guide's tensor parallel sizes about which there is least to be said.
    Raises UsageError for a recipe that cannot be read, or is not to be migrated.
    """
    from rlx.recipe.bundled import find_recipe
    from rlx.recipe.load import load_recipe
    from rlx.recipe.source import read_source

    source = read_source(find_recipe(recipe))
    file = load_recipe(recipe)
    document = file.resolve(file.control or file.arms[0]).document
    values = _set_values(sets, file.arms)
    migrator = _migrator_of(document["backend"])
    _refuse_old_start(document["backend"], values)
    results = [
        _result(
            source, {**_all_changes(migrator, file, document, one), **values}, tuple(migrator.advice(document)), target
        )
        for one in migrator.splits(document, sizes)
    ]
    return min(results, key=lambda result: (result.count(Severity.ERROR), result.count(Severity.WARNING)))


def _result(
    source: RecipeSource, changes: Mapping[Keys, object], said: tuple[str, ...], target: Path | None
) -> Migrated:
    from rlx.recipe.edit import with_keys_renamed
    from rlx.recipe.source import RecipeSource

    text = with_keys_renamed(source.text)
    for keys, value in changes.items():
        text = _changed(text, keys, value)
    if target is not None:
        text = _moved(text, source.folder, target)
    new = RecipeSource(str(target or source.name), target.parent if target else source.folder, text)
    old, changed = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
    diff = "".join(difflib.unified_diff(old, changed, source.name, new.name))
    return Migrated(text, diff, said, _findings(new))


def _migrator_of(backend: Mapping[str, Any]) -> ModuleType:
    """Find the back-end's module `migrate`. Raises UsageError where there is none."""
    found = optional_part(backend["kind"], "migrate")
    if found is None:
        able = " or ".join(kind for kind, _ in parts("migrate"))
        message = f"backend: {backend['kind']} with {backend['engine']} is not to be migrated"
        raise UsageError(message, f"name a recipe for {able} with fsdp or fsdp2")
    return found


def _refuse_old_start(backend: Mapping[str, str | None], values: Mapping[Keys, object]) -> None:
    """A file of the fork's from which a run starts is one for FSDP, whatever stands in the recipe."""
    if (name := backend["config_name"]) and ("backend", "config_name") not in values:
        raise UsageError(
            f"backend.config_name {name}: starts from a configuration for {backend['engine']}",
            "name the fork's for Megatron, and its keys: --set backend.config_name=… --set backend.key_source=…",
        )
    keys = backend["key_source"]
    is_file = keys is not None and not is_folder(Path(keys))
    if is_file and backend["engine"] != "megatron" and ("backend", "key_source") not in values:
        raise UsageError(
            f"backend.key_source {keys}: are the keys of a start for {backend['engine']}",
            "name those for Megatron: --set backend.key_source=…",
        )


def _all_changes(
    migrator: ModuleType, file: RecipeFile, document: Mapping[str, Any], sizes: MigrationSizes
) -> dict[Keys, object]:
    """Collect the changes of the recipe itself, and of the overrides that arms add."""
    by_arm = {arm: _own_overrides(file, arm) for arm in file.arms}
    added = {key for own in by_arm.values() for key in own}
    shared = {key: value for key, value in document["overrides"].items() if key not in added}
    changes: dict[Keys, object] = migrator.to_megatron({**document, "overrides": shared}, sizes)
    for arm, own in by_arm.items():
        changes |= {("arms", arm, *keys): value for keys, value in migrator.override_changes(own)}
    return changes


def _own_overrides(file: RecipeFile, arm: str) -> dict[str, object]:
    resolved = file.resolve(arm)
    overrides = resolved.document["overrides"]
    return {key: value for key, value in overrides.items() if f"overrides.{key}" in resolved.treatment}


def _set_values(sets: Sequence[str], arms: Sequence[str]) -> dict[Keys, object]:
    """Read `--set`. Unlike those of other commands they become text of the file, so relative paths start from there."""
    from rlx.recipe.problems import SourceLocation
    from rlx.recipe.sets import split_key
    from rlx.recipe.tree import plain
    from rlx.recipe.yaml_tree import parse_value

    values: dict[Keys, object] = {}
    for option in sets:
        key, equals, text = option.partition("=")
        if not equals or not all(key.split(".")) or not text:
            raise UsageError(f"--set {option}: is not KEY=VALUE", "write for example --set layout.ep=2")
        values[split_key(current_key(key), arms)] = plain(parse_value(text, SourceLocation("--set"), key))
    return values


def _changed(text: str, keys: Keys, value: object) -> str:
    """Set or remove a value. One that stands in a file that this one extends is taken back by a null."""
    from rlx.recipe.edit import with_value, without_key

    if value is not REMOVED:
        return with_value(text, keys, value)
    try:
        return without_key(text, keys)
    except KeyError:
        return with_value(text, keys, None)


def _moved(text: str, folder: Path, target: Path) -> str:
    """Give the recipe its own name, as `rlx init` does, and reach the files that it names from its new folder."""
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


def _findings(source: RecipeSource) -> tuple[Finding, ...]:
    from rlx.planning.rules import check
    from rlx.recipe.load import load_recipe

    try:
        file = load_recipe(source)
    except UsageError as problem:
        return (Finding("RLX002", Severity.ERROR, problem.message, problem.hint),)
    return tuple(dict.fromkeys(finding for arm in file.arms for finding in check(file.resolve(arm))))
