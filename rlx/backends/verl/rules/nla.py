"""The NLA fork (kitft/verl 05101093): an actor and a critic on pools of their own."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

_POOLS = "ray_kwargs.resource_pool"


@rule("RLX260")
def pipelines(facts: VerlFacts) -> Iterator[Flaw]:
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
def pool_place(facts: VerlFacts) -> Iterator[Flaw]:
    misplaced = [key for key in facts.settings.written if key.split(".")[0] == "resource_pool"]
    if facts.is_nla and misplaced:
        source = facts.source(misplaced[0])
        yield error(f"{source}: the fork ignores it", f"write +{_POOLS}.actor_rollout and .critic", source)


@rule("RLX262")
def both_pools(facts: VerlFacts) -> Iterator[Flaw]:
    pools = [name for name in ("actor_rollout", "critic") if facts.whole(f"{_POOLS}.{name}.num_gpus")]
    if facts.is_nla and len(pools) == 1:
        other = "critic" if pools == ["actor_rollout"] else "actor_rollout"
        yield error(f"{_POOLS} has {pools[0]} only", f"set +{_POOLS}.{other}.num_gpus, too")


@rule("RLX263")
def ignored_pools(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.is_nla and any(facts.count(key) for key in facts.settings.section(_POOLS) if key.endswith(".num_gpus")):
        message = f"{_POOLS}: the fork takes Hydra's maps for no pools, and puts all roles on all devices"
        yield warning(message, "patch nla_main.py:295 and waive RLX263 with the commit")


@rule("RLX264")
def whole_step(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.ppo_mini_batch_size"
    mini, samples = facts.whole(key), facts.samples
    if facts.is_nla and mini and samples and mini != samples:
        yield error(f"{facts.named(key)} is not batch_size × n = {samples}", f"overrides: {{{key}: {samples}}}")


@rule("RLX265")
def logged_answers(facts: VerlFacts) -> Iterator[Flaw]:
    key = "trainer.log_val_generations"
    logged, workers = facts.count(key), facts.count(f"{_POOLS}.critic.num_gpus") or facts.devices
    if facts.is_nla and logged and workers and logged % workers:
        fits = -(-logged // workers) * workers
        yield error(f"{facts.named(key)} does not divide over {workers} critic workers", f"{key} {fits}")


@rule("RLX266")
def critic_layer(facts: VerlFacts) -> Iterator[Flaw]:
    key, shape = "critic.output_layer_index", facts.architecture
    layer = facts.whole(key)
    if facts.is_nla and shape and layer is not None and layer >= shape.layers:
        message = f"{facts.named(key)}: {shape.name} has {shape.layers} layers"
        yield error(message, f"{key} {shape.layers * 5 // 7}", facts.source(key))
