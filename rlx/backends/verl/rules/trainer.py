"""Check the trainer against its program, and the limits of the DAPO recipe's trainer and of the NLA fork.

The NLA fork (kitft/verl 05101093) has an actor and a critic on pools of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, BATCH, GEN_BATCH, VerlFacts
from rlx.backends.verl.trainers import DAPO, DECLARED, MAIN_PPO, SYNC, program_of, trainer_of, trainer_of_program
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

_MODE = "trainer.v1.trainer_mode"
_MOST_BATCHES = "algorithm.filter_groups.max_num_gen_batches"
_DECLARE = "backend.trainer: declared with its totals: {steps: …, validations: […]}"
_ENTRY, _TRAINER = "backend.entrypoint", "backend.trainer"
_POOLS = "ray_kwargs.resource_pool"


@rule("RLX229")
def unknown_program(facts: VerlFacts) -> Iterator[RuleFinding]:
    backend = facts.recipe.backend
    if backend.trainer == DECLARED:
        return
    program = program_of(backend, facts.settings.version)
    starts, named = trainer_of_program(program), trainer_of(backend)
    if starts is None:
        yield error(f"backend.entrypoint {program}: rlx does not know how it counts steps", _DECLARE, _ENTRY)
    elif starts == DAPO and named == SYNC:
        yield error(f"backend.entrypoint {program} is DAPO's, and backend.trainer says sync", "trainer: dapo", _TRAINER)
    elif starts == SYNC and named == DAPO and not facts.uses_v1:
        message = f"backend.trainer dapo: {program} of verl {facts.settings.version} filters no groups"
        yield error(message, "no backend.entrypoint, or the program of the DAPO recipe", _ENTRY)
    mode = facts.setting(_MODE)
    if facts.uses_v1 and mode not in (None, SYNC):
        source = facts.source(_MODE)
        message = f"{source} {mode}: generates beside the training, and rlx does not know how it counts steps"
        yield error(message, f"{_MODE}: {SYNC}, or {_DECLARE}", source)


@rule("RLX231")
def noise_without_a_step(facts: VerlFacts) -> Iterator[RuleFinding]:
    aqn = facts.recipe.aqn
    if facts.is_dapo_recipe and aqn is not None and aqn.provider == "payload" and facts.release < (0, 7):
        message = f"aqn with backend.trainer dapo: the DAPO recipe of verl {facts.settings.version} names no step"
        yield error(message, f"verl 0.7.1 or later, aqn.provider builtin, or {MAIN_PPO}", "aqn")


@rule("RLX232")
def never_filled(facts: VerlFacts) -> Iterator[RuleFinding]:
    most, trained, generated = facts.count(_MOST_BATCHES), facts.count(BATCH), facts.generated
    if not (facts.is_dapo_recipe and facts.filters_groups and most and trained and generated):
        return
    if most * generated < trained:
        message = f"{facts.named(_MOST_BATCHES)} of {generated} prompts are fewer than the {trained} of a step"
        yield error(message, f"at least {-(-trained // generated)}", facts.source(_MOST_BATCHES))


@rule("RLX233")
def untold_validations(facts: VerlFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    if recipe.rollout.engine != "cpu" or recipe.aqn is None or recipe.aqn.provider != "payload" or facts.uses_v1:
        return
    program = program_of(recipe.backend, facts.settings.version)
    yield error(f"aqn with rollout.engine cpu and {program}: validations would be noisy", f"{MAIN_PPO} of 0.9", "aqn")


@rule("RLX234")
def trains_on_what_it_generates(facts: VerlFacts) -> Iterator[RuleFinding]:
    trained, generated = facts.count(BATCH), facts.generated
    if facts.is_dapo_recipe and not facts.filters_groups and trained and generated != trained:
        message = f"{facts.named(GEN_BATCH)}: without a filter each step trains on so many prompts, not on {trained}"
        yield warning(message, f"{GEN_BATCH}: {trained}, or the filter", facts.source(GEN_BATCH))


@rule("RLX235")
def unread_limits(facts: VerlFacts) -> Iterator[RuleFinding]:
    if not (facts.uses_v1 and facts.filters_groups):
        return
    for key, idle in ((_MOST_BATCHES, 0), (GEN_BATCH, 1)):
        if facts.count(key) not in (None, idle):
            message = f"{facts.named(key)}: verl {facts.settings.version} does not read it"
            yield warning(message, "remove it, or the program of the DAPO recipe", facts.source(key))


@rule("RLX260")
def pipelines(facts: VerlFacts) -> Iterator[RuleFinding]:
    if not (facts.is_nla and facts.is_megatron):
        return
    critic = "critic.megatron.pipeline_model_parallel_size"
    if (facts.count(critic) or 1) > 1 and facts.whole("critic.output_layer_index") != -1:
        message = f"{facts.named(critic)}: the NLA critic reads a layer in the middle"
        yield error(message, f"{critic} 1", facts.source(critic))
    actor = f"{ACTOR}.megatron.pipeline_model_parallel_size"
    if (facts.count(actor) or 1) > 1:
        message = f"{facts.named(actor)}: only the first stage has the embeddings that the NLA actor prepares"
        yield error(message, f"{actor} 1", facts.source(actor))


@rule("RLX261")
def pool_place(facts: VerlFacts) -> Iterator[RuleFinding]:
    misplaced = [key for key in facts.settings.written if key.split(".")[0] == "resource_pool"]
    if facts.is_nla and misplaced:
        source = facts.source(misplaced[0])
        yield error(f"{source}: the fork ignores it", f"write +{_POOLS}.actor_rollout and .critic", source)


@rule("RLX262")
def both_pools(facts: VerlFacts) -> Iterator[RuleFinding]:
    pools = [name for name in ("actor_rollout", "critic") if facts.whole(f"{_POOLS}.{name}.num_gpus")]
    if facts.is_nla and len(pools) == 1:
        other = "critic" if pools == ["actor_rollout"] else "actor_rollout"
        yield error(f"{_POOLS} has {pools[0]} only", f"set +{_POOLS}.{other}.num_gpus, too")


@rule("RLX263")
def ignored_pools(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.is_nla and any(facts.count(key) for key in facts.settings.section(_POOLS) if key.endswith(".num_gpus")):
        message = f"{_POOLS}: the fork takes Hydra's maps for no pools, and puts all roles on all devices"
        yield warning(message, "patch nla_main.py:295 and waive RLX263 with the commit")


@rule("RLX264")
def whole_step(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ACTOR}.ppo_mini_batch_size"
    mini, samples = facts.whole(key), facts.samples
    if facts.is_nla and mini and samples and mini != samples:
        yield error(f"{facts.named(key)} is not batch_size × n = {samples}", f"overrides: {{{key}: {samples}}}")


@rule("RLX265")
def logged_answers(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = "trainer.log_val_generations"
    logged, workers = facts.count(key), facts.count(f"{_POOLS}.critic.num_gpus") or facts.devices
    if facts.is_nla and logged and workers and logged % workers:
        fits = -(-logged // workers) * workers
        yield error(f"{facts.named(key)} does not divide over {workers} critic workers", f"{key} {fits}")


@rule("RLX266")
def critic_layer(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, shape = "critic.output_layer_index", facts.architecture
    layer = facts.whole(key)
    if facts.is_nla and shape and layer is not None and layer >= shape.layers:
        message = f"{facts.named(key)}: {shape.name} has {shape.layers} layers"
        yield error(message, f"{key} {shape.layers * 5 // 7}", facts.source(key))
