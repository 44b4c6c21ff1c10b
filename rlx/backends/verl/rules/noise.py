"""Check the noise: settings with which it would be missing, or differ from the recipe."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule, warning

FORK = "trainer.noise_injection"


@rule("RLX622")
def epoch_aware(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{FORK}.epoch_aware"
    if facts.is_true(key):
        yield error(f"{facts.source(key)}: the fork's epoch-aware noise is always zero", f"remove {facts.source(key)}")


@rule("RLX623")
def layer_sigmas(facts: VerlFacts) -> Iterator[RuleFinding]:
    prefix = f"{FORK}.layer_sigma_config"
    if facts.setting(prefix) or any(facts.settings.section(prefix).values()):
        yield error(f"{prefix} never reaches the rollout: the multipliers are not applied", "remove it")


@rule("RLX624")
def filtered_noise(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = "algorithm.filter_groups.enable"
    if not facts.recipe.aqn or not facts.is_true(key):
        return
    source = facts.source(key)
    if facts.uses_v1:
        message = "groups that the noise leaves without an advantage are replaced, so that arms train on other prompts"
        yield note(f"aqn with {source}: {message}", f"look at the groups dropped beside the result, or remove {source}")
    else:
        yield warning(f"aqn with {source}: noisy groups are rejected in a loop", f"remove {source}")


@rule("RLX625")
def lora_accumulation(facts: VerlFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if aqn and aqn.provider == "builtin" and facts.recipe.model.lora:
        message = (
            "aqn.provider builtin with model.lora: before the fork's cfb21db5 the noise adds up on the base weights"
        )
        yield warning(message, "use cfb21db5 or later, and waive RLX625 with the commit", "aqn.provider")


@rule("RLX628")
def overridden_noise(facts: VerlFacts) -> Iterator[RuleFinding]:
    names = ("enabled", "sigma_start", "sigma_end", "num_stages", "target_modules", "exclude_patterns", "layer_types")
    for name in names:
        key = f"{FORK}.{name}"
        if facts.source(key).startswith("overrides."):
            message = f"{facts.source(key)}: the recipe's aqn section says what the noise is"
            yield error(message, "set it in aqn", facts.source(key))


@rule("RLX629")
def no_noise_of_its_own(facts: VerlFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if aqn is None or aqn.provider != "builtin" or _may_have_noise(facts):
        return
    where = f" on {facts.found.where}" if facts.found and facts.found.folder else ""
    message = f"aqn.provider builtin: verl {facts.settings.version}{where} has no key {FORK}"
    fix = "aqn.provider payload, which rlx brings along, or a fork that has the key: name it in backend.key_source"
    yield error(f"{message}, so the arm would train without noise", fix, "aqn.provider")


@rule("RLX226")
def noise_of_several_nodes(facts: VerlFacts) -> Iterator[RuleFinding]:
    aqn, nodes = facts.recipe.aqn, facts.recipe.layout.nodes
    if nodes > 1 and aqn and aqn.provider == "payload" and facts.release < (0, 7):
        message = f"layout.nodes {nodes} with aqn.provider payload: on verl {facts.settings.version} it needs one node"
        yield error(message, "layout.nodes 1, or backend.version 0.7 or later", "layout.nodes")


@rule("RLX610")
def noise_provider(facts: VerlFacts) -> Iterator[RuleFinding]:
    aqn, engine = facts.recipe.aqn, facts.recipe.rollout.engine
    if aqn and aqn.provider == "payload" and engine not in ("cpu", "vllm"):
        message = f"aqn.provider payload: rlx brings no noise for rollout.engine {engine}"
        yield error(message, "use aqn.provider: builtin with a verl that has trainer.noise_injection", "aqn.provider")


@rule("RLX611")
def noise_length(facts: VerlFacts) -> Iterator[RuleFinding]:
    recipe, aqn = facts.recipe, facts.recipe.aqn
    if aqn and recipe.data.train_rows is None and (aqn.provider == "builtin" or recipe.train.steps is None):
        message = "aqn: the noise is spread over the whole run, whose length is not known"
        yield error(message, "give data.train_rows", "data.train_rows")


@rule("RLX612")
def noise_in_validation(facts: VerlFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if aqn and aqn.provider == "builtin" and not facts.recipe.eval.noise:
        message = "aqn.provider builtin: the fork injects its noise into validations too"
        yield warning(message, "declare it: eval.noise: true", "eval.noise")


@rule("RLX643")
def asynchronous_noise(facts: VerlFacts) -> Iterator[RuleFinding]:
    aqn, key = facts.recipe.aqn, "trainer.v1.trainer_mode"
    if aqn and aqn.provider == "payload" and facts.uses_v1 and facts.setting(key) != "sync":
        message = f"{facts.named(key)} with aqn.provider payload: what is generated during a sync may be clean"
        yield error(message, f"{key} sync", facts.source(key))


def _may_have_noise(facts: VerlFacts) -> bool:
    """By the configuration on the host; before anybody looked there, a recipe that names a fork's keys is believed."""
    if facts.found and facts.found.folder:
        return _names_noise(facts.found.folder)
    return bool(facts.recipe.backend.key_source) or any(key.startswith(FORK) for key in facts.settings.defaults)


@cache
def _names_noise(folder: Path) -> bool:
    """In any trainer's configuration, since a fork reads the keys for all of them and lists them for one."""
    name = FORK.rpartition(".")[2]
    files = (file for file in folder.rglob("*.yaml") if file.is_file())
    return any(name in file.read_text(encoding="utf-8", errors="replace") for file in files)
