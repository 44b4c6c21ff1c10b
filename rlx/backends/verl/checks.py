"""Check a recipe before it is written for verl: keys that this version does not know, lengths unknown.

What would fail although it can be written is the rules' (rlx/planning/rules/).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.shared.key_table import KeyTable
from rlx.backends.verl.dapo_keys import DAPO_KEYS, with_dapo_keys
from rlx.backends.verl.expectations import expectations, settings_of
from rlx.backends.verl.found import found_findings, table_of
from rlx.backends.verl.key_checks import own_key_findings, rendered_key_findings
from rlx.backends.verl.keys import TRAINERS, find_table, read_key_source, shipped_versions
from rlx.backends.verl.overrides import Rendering, chosen
from rlx.backends.verl.trainers import config_of, is_dapo_recipe
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe


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


def rendering_of(resolved: ResolvedRecipe, found: Installation | None = None) -> Rendering:
    """The recipe with the key table it is checked against. Raises UsageError if there is none."""
    recipe = resolved.recipe
    table = (found and table_of(resolved, found)) or _listed_table(recipe)
    version = (found.version if found else "") or recipe.backend.version
    if is_dapo_recipe(recipe, version) and not table.defaults.keys() >= DAPO_KEYS:
        table = with_dapo_keys(table, version)
    return Rendering(resolved, recipe, table, version)


def _listed_table(recipe: Recipe) -> KeyTable:
    backend = recipe.backend
    trainer = TRAINERS[backend.engine == "megatron"]
    if backend.key_source:
        return read_key_source(Path(backend.key_source), trainer, config_of(recipe, backend.version))
    return find_table(backend.version, trainer)


def _version(rendering: Rendering) -> Iterator[Finding]:
    said, taken = rendering.recipe.backend.version, rendering.table.version
    if taken != said and taken in shipped_versions():
        yield Finding(
            "RLX012",
            Severity.NOTE,
            f"backend.version {said}: its keys are checked against those of verl {taken}",
            "name your verl's configuration folder in backend.key_source if it differs",
        )


def _verifiers(rendering: Rendering) -> Iterator[Finding]:
    from rlx.recipe.schema import VerifierReward

    if isinstance(rendering.recipe.reward, VerifierReward):
        yield _error("RLX014", "reward.verifiers: verl has no named verifiers", "give reward: {path, function}")


def _dapo(rendering: Rendering) -> Iterator[Finding]:
    if rendering.recipe.algorithm.kind == "dapo":
        message = "algorithm.kind dapo: verl has no estimator of that name, DAPO is GRPO with other settings there"
        yield _error("RLX014", message, "algorithm.kind grpo, and the clip ratios and filter_groups in overrides")


def _length(rendering: Rendering) -> Iterator[Finding]:
    try:
        # Every number that the plan needs is looked at there.
        expectations(rendering, settings_of(chosen(rendering)))
    except UsageError as problem:
        yield _error("RLX015", problem.message, problem.hint)


def _error(name: str, message: str, fix: str) -> Finding:
    return Finding(name, Severity.ERROR, message, fix)


_RULES: tuple[Callable[[Rendering], Iterator[Finding]], ...] = (
    _version,
    _verifiers,
    _dapo,
    own_key_findings,
    rendered_key_findings,
    _length,
)
