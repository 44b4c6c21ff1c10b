"""Check a recipe against the MindSpeed-RL of the run: unknown keys, missing settings, an unknown length.

What can be written and would fail nevertheless is found by rules (rules/).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.expectations import expectations
from rlx.backends.mindspeed_rl.keys import find_table, is_known, nearest, read_key_source
from rlx.backends.mindspeed_rl.yaml_sections import (
    LOAD,
    MODEL,
    MindSpeedRlRendering,
    leaves,
    own_overrides,
    rendered,
    settings_of,
)
from rlx.backends.shared.overrides import Override
from rlx.backends.shared.rendering import KeyTable
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe


def check(resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
    """Return every finding about the recipe, errors first. Never raises for any valid recipe."""
    findings = [*found_findings(resolved, found)] if found else []
    try:
        rendering = rendering_of(resolved, found)
    except UsageError as problem:
        findings.append(Finding("RLX012", Severity.ERROR, problem.message, problem.hint))
    else:
        findings += [finding for rule in (_unnamed, _own_keys, _rendered_keys, _length) for finding in rule(rendering)]
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def rendering_of(resolved: ResolvedRecipe, found: Installation | None = None) -> MindSpeedRlRendering:
    """Join the recipe and the key table that it is checked against. Raises UsageError if there is none."""
    backend = resolved.recipe.backend
    table = _read(found) if found else ""
    if isinstance(table, str):
        table = read_key_source(Path(backend.key_source)) if backend.key_source else find_table(backend.version)
    # Every installed version names itself 2.1.0.
    return MindSpeedRlRendering(resolved, resolved.recipe, table, backend.version)


def _unnamed(rendering: MindSpeedRlRendering) -> Iterator[Finding]:
    """Find settings that no default can be right for."""
    recipe = rendering.recipe
    if rendering.model_name is None:
        message = f"model.arch {recipe.model.arch or 'null'}: MindSpeed-RL ships no description of this model"
        fix = f"name one in overrides ({MODEL}: NAME), with its keys there as model.NAME.num_layers and so on"
        yield Finding("RLX025", Severity.ERROR, message, fix, _origin(rendering, "model.arch"))
    if not recipe.overrides.get(LOAD):
        message = "no weights to start from: MindSpeed-RL loads those of Megatron, not those in model.path"
        fix = f"convert them with MindSpeed-LLM, and name the folder: overrides: {{{LOAD}: /data/...-tp2-pp2}}"
        yield Finding("RLX025", Severity.ERROR, message, fix, _origin(rendering, "model.path"))


def _own_keys(rendering: MindSpeedRlRendering) -> Iterator[Finding]:
    """Check the recipe's own `overrides`; another prefix adds no key here: the classes take what they know."""
    written = {setting.key: setting.source for setting in leaves(rendered(rendering))}
    for setting in leaves(own_overrides(rendering)):
        if not is_known(setting.key, rendering.table):
            near = nearest(setting.key, rendering.table)
            fix = f"did you mean {', '.join(near)}?" if near else "remove it: MindSpeed-RL refuses unknown keys"
            yield _unknown(rendering, setting, fix)
        elif setting.key in written and written[setting.key] != setting.source:
            message = f"{setting.source} replaces what rlx writes for {written[setting.key]}"
            yield Finding("RLX013", Severity.NOTE, message)


def _rendered_keys(rendering: MindSpeedRlRendering) -> Iterator[Finding]:
    """Check the keys that rlx writes, because a release may lack a feature."""
    known = {setting.key for setting in own_overrides(rendering)}
    for setting in leaves(rendered(rendering)):
        if setting.key not in known and not is_known(setting.key, rendering.table):
            fix = f"remove {setting.source}, or use a MindSpeed-RL that has it"
            yield _unknown(rendering, setting, fix)


def _length(rendering: MindSpeedRlRendering) -> Iterator[Finding]:
    try:
        expectations(rendering, settings_of(rendering))
    except UsageError as problem:
        yield Finding("RLX015", Severity.ERROR, problem.message, problem.hint)


def _unknown(rendering: MindSpeedRlRendering, setting: Override, fix: str) -> Finding:
    message = f"{setting.source}: MindSpeed-RL {rendering.table.version} has no key {setting.key}"
    return Finding("RLX010", Severity.ERROR, message, fix, _origin(rendering, setting.source))


def _origin(rendering: MindSpeedRlRendering, key: str) -> str:
    return rendering.resolved.origins.get(key, "")


def found_findings(resolved: ResolvedRecipe, found: Installation) -> Iterator[Finding]:
    """Report where the installation on the host differs from the recipe, or is missing."""
    if found.missing:
        fix = "check host and container, and that backend.workdir is a checkout of MindSpeed-RL"
        yield Finding("RLX403", Severity.ERROR, f"{found.where}: {found.missing}", fix)
    elif isinstance(known := _read(found), str):
        version = resolved.recipe.backend.version
        message = f"{found.where}: {known}; keys are checked against rlx's own list for MindSpeed-RL {version} only"
        yield Finding("RLX404", Severity.WARNING, message, "a misspelt key may show only after the start")


def _read(found: Installation) -> KeyTable | str:
    """Return the table, or why there is none."""
    return _read_folder(found.folder, found.where) if found.folder else found.problem


# The folder is named by the digest of its content, so it never changes.
@cache
def _read_folder(folder: Path, where: str) -> KeyTable | str:
    try:
        return read_key_source(folder, f"on {where}")
    except UsageError as problem:
        return problem.message
