"""The noise of the fork that has its own: settings with which it would not be there, or not what the recipe says."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, note, rule, warning

FORK = "trainer.noise_injection"


@rule("RLX622")
def epoch_aware(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{FORK}.epoch_aware"
    if facts.is_true(key):
        yield error(f"{facts.source(key)}: the fork's epoch-aware noise is always zero", f"remove {facts.source(key)}")


@rule("RLX623")
def layer_sigmas(facts: VerlFacts) -> Iterator[Flaw]:
    prefix = f"{FORK}.layer_sigma_config"
    if facts.setting(prefix) or any(facts.settings.section(prefix).values()):
        yield error(f"{prefix} never reaches the rollout: the multipliers are not applied", "remove it")


@rule("RLX624")
def filtered_noise(facts: VerlFacts) -> Iterator[Flaw]:
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
def lora_accumulation(facts: VerlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if aqn and aqn.provider == "builtin" and facts.recipe.model.lora:
        message = (
            "aqn.provider builtin with model.lora: before the fork's cfb21db5 the noise adds up on the base weights"
        )
        yield warning(message, "use cfb21db5 or later, and waive RLX625 with the commit", "aqn.provider")


@rule("RLX628")
def overridden_noise(facts: VerlFacts) -> Iterator[Flaw]:
    told = ("enabled", "sigma_start", "sigma_end", "num_stages", "target_modules", "exclude_patterns", "layer_types")
    for name in told:
        key = f"{FORK}.{name}"
        if facts.source(key).startswith("overrides."):
            message = f"{facts.source(key)}: the recipe's aqn section says what the noise is"
            yield error(message, "set it in aqn", facts.source(key))
