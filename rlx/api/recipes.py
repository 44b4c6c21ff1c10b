"""Take a recipe as a value, or load it by path or name."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from rlx.backends.registry import optional_part, parts
from rlx.backends.shared.migration import REMOVED, Keys, MigrationSizes
from rlx.errors import RlxError, UsageError
from rlx.local_files import is_folder
from rlx.model import Finding, Severity
from rlx.renamed_keys import current_key

if TYPE_CHECKING:
    from rlx.planning.layouts import Layouts
    from rlx.planning.memory import TrainingSetup
    from rlx.recipe import RecipeFile, ResolvedRecipe
    from rlx.recipe.source import RecipeSource

Recipe: TypeAlias = Union["RecipeFile", str, Path]
"""What `load_recipe` returns, the path of a recipe file, the name of a bundled one, or `-` for standard input."""


def recipe_file(recipe: Recipe, sets: Sequence[str] = ()) -> RecipeFile:
    """Load the recipe unless it is loaded already. Raises UsageError, also for `sets` that come too late."""
    from rlx.recipe import RecipeFile, load_recipe

    if not isinstance(recipe, RecipeFile):
        return load_recipe(recipe, sets)
    if sets:
        raise UsageError(f"{recipe.path} is loaded already", "give the options to load_recipe")
    return recipe


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


@dataclass(frozen=True, slots=True)
class RecipeLayouts:
    """`job` is the split of the recipe itself; `found` has those that are `possible`, best first, and the `refused`."""

    recipe: str
    job: TrainingSetup
    found: Layouts


def layouts(
    recipe: Recipe,
    *,
    devices: int | None = None,
    memory_gib: float | None = None,
    arm: str | None = None,
    sets: Sequence[str] = (),
) -> RecipeLayouts:
    """List the layouts that divide, with the memory of each phase in GiB; those that fit first, then by communication.

    `devices` to split over are the recipe's by default, `memory_gib` that of one device (64 for NPUs), `arm` the
    first. Raises UsageError where model or device are not known, or there are too many devices.
    """
    from rlx.planning.layouts import batch_of
    from rlx.planning.layouts import layouts as all_layouts

    file = recipe_file(recipe, sets)
    resolved = file.resolve(arm or file.arms[0])
    job, dynamic = _job(resolved, devices, memory_gib)
    return RecipeLayouts(resolved.recipe.name, job, all_layouts(job, batch_of(resolved.recipe, dynamic)))


def _job(resolved: ResolvedRecipe, devices: int | None, memory: float | None) -> tuple[TrainingSetup, bool]:
    """Return the recipe's job on that many devices, and whether its micro batches are filled up by tokens."""
    from dataclasses import replace

    from rlx.errors import UsageError
    from rlx.planning.layouts import MOST_DEVICES
    from rlx.planning.memory import device_of, job_of
    from rlx.planning.models.architecture_config import known_architecture
    from rlx.planning.rules.facts import facts_of

    recipe = resolved.recipe
    shape, device = known_architecture(recipe), device_of(recipe, memory)
    if recipe.layout.device == "cpu":
        raise UsageError("layout.device cpu: there is nothing to split", "name a recipe for npu or cuda")
    if shape is None:
        raise UsageError(f"model.path: nothing is known of {recipe.model.path}", "name a similar model in model.arch")
    if device is None:
        raise UsageError(f"the memory of a {recipe.layout.device} device is not known", "say it: --memory 80")
    facts = facts_of(resolved)
    job = job_of(recipe, facts.settings, shape, device)
    count = devices or job.split.devices
    if count > MOST_DEVICES:
        raise UsageError(f"{count} devices: layouts are listed for {MOST_DEVICES} at most", "use --devices")
    whole = count if job.fsdp_size == job.split.devices else min(job.fsdp_size, count)
    job = replace(job, split=replace(job.split, devices=count), fsdp_size=whole)
    return job, not facts.fixed_micro_batches


@dataclass(frozen=True, slots=True)
class Migrated:
    """The new text, the unified diff from the old one, and what is to be said about the result."""

    text: str
    diff: str
    advice: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def is_valid(self) -> bool:
        """Tell whether no finding is an error."""
        return not self.count(Severity.ERROR)

    def count(self, severity: Severity) -> int:
        """Count the findings of this severity."""
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
    """Return the recipe for Megatron as it would stand in `target`, by default in its old place.

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
    return Migrated(text, diff, said, _migration_findings(new))


def _migrator_of(backend: Mapping[str, Any]) -> ModuleType:
    """Find the back-end's module `migrate`. Raises UsageError where it has none."""
    found = optional_part(backend["kind"], "migrate")
    if found is None:
        able = " or ".join(kind for kind, _ in parts("migrate"))
        message = f"backend: {backend['kind']} with {backend['engine']} is not to be migrated"
        raise UsageError(message, f"name a recipe for {able} with fsdp or fsdp2")
    return found


def _refuse_old_start(backend: Mapping[str, str | None], values: Mapping[Keys, object]) -> None:
    """Refuse a start file of the fork: it is for FSDP, whatever the recipe says."""
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


def _migration_findings(source: RecipeSource) -> tuple[Finding, ...]:
    from rlx.planning.rules import check
    from rlx.recipe.load import load_recipe

    try:
        file = load_recipe(source)
    except UsageError as problem:
        return (Finding("RLX002", Severity.ERROR, problem.message, problem.hint),)
    return tuple(dict.fromkeys(finding for arm in file.arms for finding in check(file.resolve(arm))))
