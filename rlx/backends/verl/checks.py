"""Check a recipe before it is written for verl: keys that this version does not know, lengths unknown.

What would fail although it can be written is the rules' (rlx/planning/rules/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.shared.overrides import Override
from rlx.backends.shared.rendering import KeyTable
from rlx.backends.verl.expectations import expectations, settings_of
from rlx.backends.verl.keys import (
    TRAINERS,
    find_rename,
    find_table,
    numbers,
    read_key_source,
    removed_value,
    shipped_versions,
)
from rlx.backends.verl.overrides import VerlRendering, chosen, own_overrides, rendered
from rlx.backends.verl.trainers import DAPO_KEYS, config_of, is_dapo_recipe, with_dapo_keys
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

# Without these rlx cannot read what the run did.
_EVIDENCE_KEYS = frozenset(
    {
        "trainer.logger",
        "trainer.validation_data_dir",
        "actor_rollout_ref.rollout.calculate_log_probs",
    }
)
_MISSING_FIX = "check host and container, and backend.python, workdir and entrypoint"


def check(resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
    """Every finding about the recipe, errors first. Never raises for what a recipe may say.

    `found` is the verl that the run would import, where somebody looked: its keys count, and no table's.
    """
    findings = [*found_findings(resolved, found)] if found else []
    try:
        rendering = rendering_of(resolved, found)
    except UsageError as problem:
        findings.append(_error("RLX012", problem.message, problem.hint))
    else:
        findings += [finding for rule in _RULES for finding in rule(rendering)]
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def rendering_of(resolved: ResolvedRecipe, found: Installation | None = None) -> VerlRendering:
    """The recipe with the key table it is checked against. Raises UsageError if there is none."""
    recipe = resolved.recipe
    table = (found and table_of(resolved, found)) or _listed_table(recipe)
    version = (found.version if found else "") or recipe.backend.version
    if is_dapo_recipe(recipe, version) and not table.defaults.keys() >= DAPO_KEYS:
        table = with_dapo_keys(table, version)
    return VerlRendering(resolved, recipe, table, version)


def _listed_table(recipe: Recipe) -> KeyTable:
    backend = recipe.backend
    trainer = TRAINERS[backend.engine == "megatron"]
    if backend.key_source:
        return read_key_source(Path(backend.key_source), trainer, config_of(recipe, backend.version))
    return find_table(backend.version, trainer)


def _version(rendering: VerlRendering) -> Iterator[Finding]:
    said, taken = rendering.recipe.backend.version, rendering.table.version
    if taken != said and taken in shipped_versions():
        yield Finding(
            "RLX012",
            Severity.NOTE,
            f"backend.version {said}: its keys are checked against those of verl {taken}",
            "name your verl's configuration folder in backend.key_source if it differs",
        )


def _verifiers(rendering: VerlRendering) -> Iterator[Finding]:
    from rlx.recipe.schema import VerifierReward

    if isinstance(rendering.recipe.reward, VerifierReward):
        yield _error("RLX014", "reward.verifiers: verl has no named verifiers", "give reward: {path, function}")


def _dapo(rendering: VerlRendering) -> Iterator[Finding]:
    if rendering.recipe.algorithm.kind == "dapo":
        message = "algorithm.kind dapo: verl has no estimator of that name, DAPO is GRPO with other settings there"
        yield _error("RLX014", message, "algorithm.kind grpo, and the clip ratios and filter_groups in overrides")


def _length(rendering: VerlRendering) -> Iterator[Finding]:
    try:
        # Every number that the plan needs is looked at there.
        expectations(rendering, settings_of(chosen(rendering)))
    except UsageError as problem:
        yield _error("RLX015", problem.message, problem.hint)


def _error(name: str, message: str, fix: str) -> Finding:
    return Finding(name, Severity.ERROR, message, fix)


def own_key_findings(rendering: VerlRendering) -> Iterator[Finding]:
    """Check the recipe's own `overrides`."""
    written = {override.key: override for override in rendered(rendering)}
    for override in own_overrides(rendering):
        yield from _key_findings(override, rendering)
        if override.key in written:
            yield _replacement(override, written[override.key])


def rendered_key_findings(rendering: VerlRendering) -> Iterator[Finding]:
    """Check the keys that rlx writes: a fork may lack some, and a version may lack a feature."""
    for override in rendered(rendering):
        if not override.prefix and override.key not in rendering.table:
            yield Finding(
                "RLX010",
                Severity.ERROR,
                f"{override.source}: verl {rendering.table.version} has no key {override.key}",
                f"remove {override.source}, or use a version of verl that has it",
                where=_origin(rendering, override),
            )


def _key_findings(override: Override, rendering: VerlRendering) -> Iterator[Finding]:
    version, where = rendering.version, _origin(rendering, override)
    if rename := find_rename(override.key, rendering.table, version):
        severity = Severity.ERROR if rename.ignored else Severity.WARNING
        message = f"{override.source}: verl {version} reads {rename.new} instead"
        yield Finding("RLX011", severity, message, f"write {rename.new}", where)
    elif fix := removed_value(override.key, override.value, version):
        message = f"{override.source}: verl {version} no longer takes {override.value!r}"
        yield Finding("RLX011", Severity.ERROR, message, fix, where)
    elif override.key not in rendering.table:
        yield _unknown(override, rendering, where)
    elif override.prefix == "+" and override.key in rendering.table.defaults:
        message = f"{override.source}: the key exists, and + only adds new ones"
        yield Finding("RLX010", Severity.ERROR, message, f"write {override.key}", where)


def _unknown(override: Override, rendering: VerlRendering, where: str) -> Finding:
    message = f"{override.source}: verl {rendering.table.version} has no key {override.key}"
    if override.prefix.startswith("+"):
        return Finding("RLX010", Severity.NOTE, f"{message}; it is added as written", "", where)
    nearest = rendering.table.nearest(override.key)
    hint = f"did you mean {', '.join(nearest)}? " if nearest else ""
    fix = f"{hint}To add a key on purpose, write +{override.key}"
    return Finding("RLX010", Severity.ERROR, message, fix, where)


def _replacement(override: Override, written: Override) -> Finding:
    message = f"{override.source} replaces what rlx writes for {written.source}"
    if override.key in _EVIDENCE_KEYS and override.value != written.value:
        fix = "remove it: rlx reads there what the run did, and will not vouch for the result without"
        return Finding("RLX013", Severity.WARNING, message, fix)
    return Finding("RLX013", Severity.NOTE, message)


def _origin(rendering: VerlRendering, override: Override) -> str:
    return rendering.resolved.origins.get(override.source, "")


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


_RULES: tuple[Callable[[VerlRendering], Iterator[Finding]], ...] = (
    _version,
    _verifiers,
    _dapo,
    own_key_findings,
    rendered_key_findings,
    _length,
)
