"""Check a recipe against the TRL of the run: its version, unknown arguments, an unknown length.

What can be written and would fail nevertheless is found by rules (rules/).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from rlx.backends.shared.rendering import KeyTable
from rlx.backends.trl.arguments import Rendering, own_overrides, rendered
from rlx.backends.trl.generate_keys import KEYS_FOLDER
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe


def check(resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
    """Return every finding about the recipe, errors first. Never raises for any valid recipe."""
    findings = [*_found(resolved, found)] if found else []
    try:
        rendering = rendering_of(resolved)
    except UsageError as problem:
        findings.append(Finding("RLX012", Severity.ERROR, problem.message, problem.hint))
    else:
        findings += [finding for part in (_verifiers, _own_keys, _length) for finding in part(rendering)]
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def rendering_of(resolved: ResolvedRecipe) -> Rendering:
    """Join the recipe and the table that it is checked against. Raises UsageError if there is none."""
    version = resolved.recipe.backend.version
    return Rendering(resolved, resolved.recipe, find_table(version), version)


def _found(resolved: ResolvedRecipe, found: Installation) -> Iterator[Finding]:
    """Report where the installation on the host differs from the recipe, or is missing."""
    expected = resolved.recipe.backend.version
    if found.missing:
        fix = "check host, container and backend.python: make engines makes an environment with it"
        yield Finding("RLX403", Severity.ERROR, f"{found.where}: {found.missing}", fix)
    elif found.version and found.version != expected:
        message = f"{found.where} has TRL {found.version}, and backend.version says {expected}"
        yield Finding("RLX404", Severity.ERROR, message, f"install trl=={expected}: rlx extends its private methods")


def _verifiers(rendering: Rendering) -> Iterator[Finding]:
    from rlx.recipe.schema import FunctionReward

    if not isinstance(rendering.recipe.reward, FunctionReward):
        message = "reward: TRL has no rewards by name"
        yield Finding("RLX014", Severity.ERROR, message, "give reward: {path, function}")


def _own_keys(rendering: Rendering) -> Iterator[Finding]:
    """Check the recipe's own `overrides`: GRPOConfig takes its fields and nothing else."""
    try:
        written = {argument.key: argument.source for argument in rendered(rendering.recipe)}
    except UsageError:
        written = {}
    for argument in own_overrides(rendering.recipe):
        if argument.prefix or argument.key not in rendering.table.defaults:
            near = rendering.table.nearest(argument.key)
            fix = f"did you mean {', '.join(near)}?" if near else "remove it: GRPOConfig refuses unknown arguments"
            message = f"{argument.source}: TRL {rendering.version} has no argument {argument.prefix}{argument.key}"
            origin = rendering.resolved.origins.get(argument.source, "")
            yield Finding("RLX010", Severity.ERROR, message, fix, origin)
        elif argument.key in written:
            message = f"{argument.source} replaces what rlx writes for {written[argument.key]}"
            yield Finding("RLX013", Severity.NOTE, message)


def _length(rendering: Rendering) -> Iterator[Finding]:
    from rlx.backends.trl.arguments import settings_of
    from rlx.backends.trl.expectations import expectations

    try:
        expectations(rendering, settings_of(rendering))
    except UsageError as problem:
        yield Finding("RLX015", Severity.ERROR, problem.message, problem.hint)


def shipped_versions() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in KEYS_FOLDER.glob("*.json")))


@cache
def find_table(version: str) -> KeyTable:
    """Return the table of `version`. Raises UsageError for any other: rlx's noise extends private methods of TRL."""
    if version not in shipped_versions():
        raise UsageError(
            f"backend.version: rlx knows no TRL {version}",
            f"use one of {', '.join(shipped_versions())}; rlx extends private methods, which change with each version",
        )
    return KeyTable.of(version, json.loads((KEYS_FOLDER / f"{version}.json").read_text(encoding="utf-8")))
