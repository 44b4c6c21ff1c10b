"""What is wrong with a recipe before anything starts: keys that this verl does not know, and what it cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.backends.verl.expectations import expectations, run_length, settings_of
from rlx.backends.verl.found import found_findings, table_of
from rlx.backends.verl.key_checks import own_key_findings, rendered_key_findings
from rlx.backends.verl.keys import TRAINERS, KeyTable, find_table, read_key_source, shipped_versions
from rlx.backends.verl.overrides import Rendering, chosen, cpu
from rlx.errors import UsageError
from rlx.plan import Finding, FoundTree, Severity

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Backend as BackendSection


def check(resolved: ResolvedRecipe, found: FoundTree | None = None) -> tuple[Finding, ...]:
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


def rendering_of(resolved: ResolvedRecipe, found: FoundTree | None = None) -> Rendering:
    """The recipe with the key table it is checked against. Raises UsageError if there is none."""
    recipe = resolved.recipe
    table = (found and table_of(resolved, found)) or _listed_table(recipe.backend)
    version = (found.version if found else "") or recipe.backend.version
    return Rendering(resolved, recipe, table, version)


def _listed_table(backend: BackendSection) -> KeyTable:
    trainer = TRAINERS[backend.engine == "megatron"]
    if backend.key_source:
        return read_key_source(Path(backend.key_source), trainer, backend.config_name)
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


def _layout(rendering: Rendering) -> Iterator[Finding]:
    layout = rendering.recipe.layout
    if not rendering.is_megatron and (layout.tp, layout.pp, layout.ep) != (1, 1, 1):
        message = f"layout: {rendering.recipe.backend.engine} splits no tensors, pipelines or experts"
        yield _error("RLX201", message, "leave tp, pp and ep at 1, or use backend.engine: megatron")
    if layout.pools is not None:
        yield _error("RLX202", "layout.pools: verl places all roles on all devices", "remove it")
    if layout.nodes > 1:
        message = f"layout.nodes {layout.nodes}: a run's own Ray covers one node"
        yield _error("RLX203", message, "use one node")


def _length(rendering: Rendering) -> Iterator[Finding]:
    try:
        settings = settings_of(chosen(rendering))
        length = run_length(rendering, settings)
        # Every number that the plan needs is looked at there.
        expectations(rendering, settings)
    except UsageError as problem:
        yield _error("RLX015", problem.message, problem.hint)
        return
    if length.by_data == 0:
        rows, batch = rendering.recipe.data.train_rows, rendering.recipe.train.batch_size
        message = f"data.train_rows {rows} do not fill one batch of {batch} prompts"
        yield _error("RLX101", message, "lower train.batch_size")
    elif length.data_ends_first:
        message = (
            f"the data ends after step {length.by_data} of {length.total}: verl stops there without a last validation"
        )
        yield Finding("RLX102", Severity.WARNING, message, "raise the number of epochs or lower the number of steps")


def _rollout(rendering: Rendering) -> Iterator[Finding]:
    rollout = rendering.recipe.rollout
    if rollout.ep > 1 and (rollout.ep < rollout.tp or rollout.ep % rollout.tp):
        message = f"rollout.ep {rollout.ep}: verl splits experts over whole groups of rollout.tp {rollout.tp}"
        yield _error("RLX204", message, "make rollout.ep a multiple of rollout.tp")
    if rollout.engine == "cpu" and cpu.NEEDED_KEY not in rendering.table:
        message = f"rollout.engine cpu: verl {rendering.version} cannot be steered from outside"
        yield _error("RLX401", message, "use verl 0.9")


def _noise(rendering: Rendering) -> Iterator[Finding]:
    recipe, aqn = rendering.recipe, rendering.recipe.aqn
    if aqn is None:
        return
    if aqn.provider == "payload" and recipe.rollout.engine != "cpu":
        message = f"aqn.provider payload: rlx brings no noise for rollout.engine {recipe.rollout.engine}"
        yield _error("RLX610", message, "use aqn.provider: builtin with a verl that has trainer.noise_injection")
    if recipe.data.train_rows is None and (aqn.provider == "builtin" or recipe.train.steps is None):
        message = "aqn: the noise is spread over the whole run, whose length is not known"
        yield _error("RLX611", message, "give data.train_rows")
    if aqn.provider == "builtin" and not recipe.eval.noise:
        message = "aqn.provider builtin: the fork injects its noise into validations too"
        yield Finding("RLX612", Severity.WARNING, message, "declare it: eval.noise: true")


def _error(name: str, message: str, fix: str) -> Finding:
    return Finding(name, Severity.ERROR, message, fix)


_RULES: tuple[Callable[[Rendering], Iterator[Finding]], ...] = (
    _version,
    _verifiers,
    _layout,
    _rollout,
    _noise,
    own_key_findings,
    rendered_key_findings,
    _length,
)
