"""Check a recipe against the verl of the run: its version, unknown or renamed keys, an unknown length.

What can be written and would fail nevertheless is found by rules (rules/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.shared.overrides import Override
from rlx.backends.shared.rendering import KeyTable
from rlx.backends.verl.expectations import expectations, settings_of
from rlx.backends.verl.key_names import LOGGER, READ_LOGGERS
from rlx.backends.verl.keys import (
    TRAINERS,
    find_rename,
    find_table,
    is_in_no_release,
    numbers,
    read_key_source,
    removed_value,
    shipped_versions,
)
from rlx.backends.verl.overrides import VerlRendering, chosen, own_overrides, own_trackers, rendered
from rlx.backends.verl.trainers import DAPO_KEYS, config_of, is_dapo_recipe, with_dapo_keys
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

# Without these rlx cannot read what the run did.
_EVIDENCE_KEYS = frozenset(
    {
        LOGGER,
        "trainer.validation_data_dir",
        "actor_rollout_ref.rollout.calculate_log_probs",
    }
)
# Also two of them, lower and upper bound, as 0.5_2.0.
_NUMBERS = re.compile(r"(?i:[+-]?(?:inf|nan|(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:_\d+(?:\.\d+)?)?)")


def check(resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
    """Return every finding about the recipe, errors first. Never raises for any valid recipe.

    `found` is the verl that the run would import, if the host was asked: then its keys count instead of a table's.
    """
    findings = [*_installation_findings(resolved, found)] if found else []
    try:
        rendering = rendering_of(resolved, found)
    except UsageError as problem:
        findings.append(Finding("RLX012", Severity.ERROR, problem.message, problem.hint))
    else:
        findings += [*_recipe_findings(rendering), *_own_key_findings(rendering), *_rendered_key_findings(rendering)]
        try:
            # This reads every number that the plan needs.
            expectations(rendering, settings_of(chosen(rendering)))
        except UsageError as problem:
            findings.append(Finding("RLX015", Severity.ERROR, problem.message, problem.hint))
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def rendering_of(resolved: ResolvedRecipe, found: Installation | None = None) -> VerlRendering:
    """Join the recipe and the key table that it is checked against. Raises UsageError if there is none."""
    recipe, backend = resolved.recipe, resolved.recipe.backend
    trainer = TRAINERS[backend.engine == "megatron"]
    version = (found.version if found else "") or backend.version
    table = _table_on_host(resolved, found) if found else ""
    if isinstance(table, str) and backend.key_source:
        table = read_key_source(Path(backend.key_source), trainer, config_of(recipe, backend.version))
    elif isinstance(table, str):
        table = find_table(backend.version, trainer)
    if is_dapo_recipe(recipe, version) and not table.defaults.keys() >= DAPO_KEYS:
        table = with_dapo_keys(table, version)
    return VerlRendering(resolved, recipe, table, version)


def _installation_findings(resolved: ResolvedRecipe, found: Installation) -> Iterator[Finding]:
    """Report where the installation on the host differs from the recipe, or is missing.

    A fork has keys that no table of rlx lists, and a container often another version than the recipe.
    """
    expected, known = resolved.recipe.backend.version, _table_on_host(resolved, found)
    if found.missing:
        fix = "check host and container, and backend.python, workdir and entrypoint"
        yield Finding("RLX403", Severity.ERROR, f"{found.where}: {found.missing}", fix)
        return
    # 0.7 is 0.7.1, and 0.7.1+aqn is, too: versions differ only by numbers that both have.
    if any(one != other for one, other in zip(numbers(expected), numbers(found.version), strict=False)):
        message = f"backend.version {expected}, but {found.where} has verl {found.version}"
        counts = f"; keys are checked against {found.version}" if isinstance(known, KeyTable) else ""
        fix = f'write backend.version: "{found.version}", or name the right host, container, workdir or python'
        yield Finding("RLX402", Severity.WARNING, message + counts, fix)
    if isinstance(known, str):
        message = f"{found.where}: {known}; keys are checked against rlx's own list for verl {expected} only"
        yield Finding("RLX404", Severity.WARNING, message, "a misspelt key may show only after the start")


def _table_on_host(resolved: ResolvedRecipe, found: Installation) -> KeyTable | str:
    """Return the keys that Hydra will know on the host, or why they could not be read."""
    if found.folder is None:
        return found.problem
    trainer = TRAINERS[resolved.recipe.backend.engine == "megatron"]
    table = _read_folder(found.folder, trainer, config_of(resolved.recipe, found.version))
    return replace(table, version=f"{found.version} on {found.where}") if isinstance(table, KeyTable) else table


# The folder is named by the digest of its content, so it never changes.
@cache
def _read_folder(folder: Path, trainer: str, config_name: str | None) -> KeyTable | str:
    try:
        return read_key_source(folder, trainer, config_name)
    except UsageError as problem:
        return problem.message


def _recipe_findings(rendering: VerlRendering) -> Iterator[Finding]:
    from rlx.recipe.schema import VerifierReward

    recipe, listed = rendering.recipe, rendering.table.version
    if listed != recipe.backend.version and listed in shipped_versions():
        message = f"backend.version {recipe.backend.version}: its keys are checked against those of verl {listed}"
        fix = "name your verl's configuration folder in backend.key_source if it differs"
        yield Finding("RLX012", Severity.NOTE, message, fix)
    if isinstance(recipe.reward, VerifierReward):
        message = "reward.verifiers: verl has no named verifiers"
        yield Finding("RLX014", Severity.ERROR, message, "give reward: {path, function}")
    if recipe.algorithm.kind == "dapo":
        message = "algorithm.kind dapo: verl has no estimator of that name, DAPO is GRPO with other settings there"
        fix = "algorithm.kind grpo, and the clip ratios and filter_groups in overrides"
        yield Finding("RLX014", Severity.ERROR, message, fix)


def _own_key_findings(rendering: VerlRendering) -> Iterator[Finding]:
    """Check the recipe's own `overrides`: Hydra would refuse an unknown key minutes after the start."""
    written = {override.key: override for override in rendered(rendering)}
    for override in own_overrides(rendering):
        yield from _key_findings(override, rendering)
        if _is_misfit(rendering.table.defaults.get(override.key), override.value):
            message = (
                f"{override.source}: {override.value!r} is no number, and verl {rendering.table.version} takes one"
            )
            where = rendering.resolved.origins.get(override.source, "")
            yield Finding("RLX029", Severity.ERROR, message, "write one number; several are arms of the recipe", where)
        if (replaced := written.get(override.key)) is None:
            continue
        message = f"{override.source} replaces what rlx writes for {replaced.source}"
        if override.key == LOGGER and (trackers := own_trackers(rendering.recipe)):
            names = ", ".join(trackers)
            yield Finding("RLX013", Severity.NOTE, f"{override.source}: {names} beside {' and '.join(READ_LOGGERS)}")
        elif override.key in _EVIDENCE_KEYS and override.value != replaced.value:
            fix = "remove it: rlx reads there what the run did, and will not vouch for the result without"
            yield Finding("RLX013", Severity.WARNING, message, fix)
        else:
            yield Finding("RLX013", Severity.NOTE, message)


def _is_misfit(default: object, value: object) -> bool:
    """Tell whether verl has a number here, and the recipe a list, or text that no number follows from."""
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return False
    if isinstance(value, str):
        return "${" not in value and not _NUMBERS.fullmatch(value)
    return isinstance(value, (list, tuple, Mapping))


def _key_findings(override: Override, rendering: VerlRendering) -> Iterator[Finding]:
    version, where = rendering.version, rendering.resolved.origins.get(override.source, "")
    if rename := find_rename(override.key, rendering.table, version):
        severity = Severity.ERROR if rename.ignored else Severity.WARNING
        message = f"{override.source}: verl {version} reads {rename.new} instead"
        yield Finding("RLX011", severity, message, f"write {rename.new}", where)
    elif fix := removed_value(override.key, override.value, version):
        message = f"{override.source}: verl {version} no longer takes {override.value!r}"
        yield Finding("RLX011", Severity.ERROR, message, fix, where)
    elif override.key not in rendering.table:
        message = f"{override.source}: verl {rendering.table.version} has no key {override.key}"
        if override.prefix.startswith("+"):
            yield Finding("RLX010", Severity.NOTE, f"{message}; it is added as written", "", where)
            return
        nearest = rendering.table.nearest(override.key)
        hint = f"did you mean {', '.join(nearest)}? " if nearest else ""
        fix = f"{hint}To add a key on purpose, write +{override.key}"
        if not nearest and is_in_no_release(override.key):
            fix += "; if it is a fork's own, name the fork's configuration folder in backend.key_source"
        yield Finding("RLX010", Severity.ERROR, message, fix, where)
    elif override.prefix == "+" and override.key in rendering.table.defaults:
        message = f"{override.source}: the key exists, and + only adds new ones"
        yield Finding("RLX010", Severity.ERROR, message, f"write {override.key}", where)


def _rendered_key_findings(rendering: VerlRendering) -> Iterator[Finding]:
    """Check the keys that rlx writes: a fork may lack some, and a version may lack a feature."""
    for override in rendered(rendering):
        if not override.prefix and override.key not in rendering.table:
            message = f"{override.source}: verl {rendering.table.version} has no key {override.key}"
            fix = f"remove {override.source}, or use a version of verl that has it"
            where = rendering.resolved.origins.get(override.source, "")
            yield Finding("RLX010", Severity.ERROR, message, fix, where=where)
