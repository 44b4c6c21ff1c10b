"""The noise of the fork that has its own: settings with which it would not be there, or not what the recipe says."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import VerlFacts
from rlx.preflight.rules.rule_table import Flaw, error, note, rule, warning

FORK = "trainer.noise_injection"


@rule(
    "RLX622",
    title="epoch-aware noise of the fork",
    why="it is always zero: the schedule is asked for step 0 of 1, which is the stage without noise",
    fix="remove `epoch_aware`",
    source="zhshgmail/verl 4399ddd0..cfb21db5, vllm_rollout.py:326: get_sigma_by_step(0, 1, [sigma]) is 0 (re-run)",
)
def epoch_aware(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{FORK}.epoch_aware"
    if facts.is_true(key):
        yield error(f"{facts.source(key)}: the fork's epoch-aware noise is always zero", f"remove {facts.source(key)}")


@rule(
    "RLX623",
    title="a sigma for each layer, which the fork does not forward",
    why="the trainer never hands layer_sigma_config to the rollout: every layer gets the same noise",
    fix="remove it, or do not read the result as one of per-layer noise",
    source="zhshgmail/verl cfb21db5: ray_trainer does not forward it, RolloutConfig has no such field",
)
def layer_sigmas(facts: VerlFacts) -> Iterator[Flaw]:
    prefix = f"{FORK}.layer_sigma_config"
    if facts.setting(prefix) or any(facts.settings.section(prefix).values()):
        yield error(f"{prefix} never reaches the rollout: the multipliers are not applied", "remove it")


@rule(
    "RLX624",
    title="filtered groups with noise",
    why="noisy answers are rejected again and again, up to the error at max_num_gen_batches; the steps are not known",
    fix="no `filter_groups` in an experiment about noise",
    source="zhshgmail/verl: filter_groups max_num_gen_batches + noise = rejection loop",
)
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


@rule(
    "RLX625",
    title="the fork's noise with LoRA",
    why="before cfb21db5 a sync of adapters left the noise on the base weights, so that it added up",
    fix="a fork of cfb21db5 or later; then waive this with the commit",
    source="zhshgmail/verl cfb21db5: restore before noise",
)
def lora_accumulation(facts: VerlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if aqn and aqn.provider == "builtin" and facts.recipe.model.lora:
        message = (
            "aqn.provider builtin with model.lora: before the fork's cfb21db5 the noise adds up on the base weights"
        )
        yield warning(message, "use cfb21db5 or later, and waive RLX625 with the commit", "aqn.provider")


@rule(
    "RLX628",
    title="overrides change the fork's noise behind the recipe's back",
    why="the verdict holds the log against `aqn`, not against the override",
    fix="say it in `aqn`",
    source="rlx/backends/verl/noise.py computes what the log must show from aqn",
)
def overridden_noise(facts: VerlFacts) -> Iterator[Flaw]:
    told = ("enabled", "sigma_start", "sigma_end", "num_stages", "target_modules", "exclude_patterns", "layer_types")
    for name in told:
        key = f"{FORK}.{name}"
        if facts.source(key).startswith("overrides."):
            message = f"{facts.source(key)}: the recipe's aqn section says what the noise is"
            yield error(message, "set it in aqn", facts.source(key))
