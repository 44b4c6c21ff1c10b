"""Devices and how the work is split over them: what verl, Megatron and vLLM assert about sizes alone."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, ROLLOUT, VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of, product
from rlx.planning.rules.rule_table import Flaw, error, rule

ROLLOUT_TP = f"{ROLLOUT}.tensor_model_parallel_size"


@rule("RLX205")
def training_split(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.is_megatron and facts.devices and facts.model_parallel and facts.devices % facts.model_parallel:
        message = f"layout: tp {facts.tp} × pp {facts.pp} × cp {facts.cp} = {facts.model_parallel} does not divide"
        fits = one_of(near(divisors(facts.devices), facts.model_parallel))
        yield error(f"{message} the {facts.devices} devices", f"make the product {fits}", "layout.tp")


@rule("RLX206")
def sequence_split(facts: VerlFacts) -> Iterator[Flaw]:
    if not facts.is_megatron and facts.devices and facts.cp and facts.devices % facts.cp:
        message = f"layout.cp {facts.cp} does not divide the {facts.devices} devices"
        yield error(message, f"use {one_of(near(divisors(facts.devices), facts.cp))}", "layout.cp")


@rule("RLX207")
def rollout_replicas(facts: VerlFacts) -> Iterator[Flaw]:
    replicas = facts.count(f"{ROLLOUT}.data_parallel_size") or 1
    stages = facts.count(f"{ROLLOUT}.pipeline_model_parallel_size") or 1
    tp = facts.count(ROLLOUT_TP)
    size = product(tp, replicas, stages)
    has_its_own = facts.setting("trainer.v1.trainer_mode") == "separate_async"
    if facts.devices and tp and size and facts.devices % size and not has_its_own:
        made_of = f" × {replicas * stages}" if replicas * stages > 1 else ""
        message = f"{facts.named(ROLLOUT_TP)}{made_of} does not divide the {facts.devices} devices"
        fits = [tp for tp in divisors(facts.devices) if facts.devices % (tp * replicas * stages) == 0]
        fix = f"rollout.tp {one_of(near(fits, tp))}" if fits else "lower rollout.ep"
        yield error(message, fix, facts.source(ROLLOUT_TP))


@rule("RLX208")
def rollout_pipeline(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ROLLOUT}.pipeline_model_parallel_size"
    if (facts.count(key) or 1) > 1:
        yield error(f"{facts.named(key)}: the rollout has no pipelines", f"remove {facts.source(key)}")


@rule("RLX227")
def dense_data_parallel(facts: VerlFacts) -> Iterator[Flaw]:
    key, shape = f"{ROLLOUT}.data_parallel_size", facts.architecture
    if facts.release < (0, 9) or facts.setting(f"{ROLLOUT}.name") != "vllm" or (facts.count(key) or 1) == 1:
        return
    if shape is not None and shape.experts is None:
        message = f"{facts.named(key)}: {shape.name} has no experts, and the first weight sync hangs"
        yield error(message, f"{key} 1: there are several replicas then", facts.source(key))


@rule("RLX209")
def expert_groups(facts: VerlFacts) -> Iterator[Flaw]:
    expert_tp = facts.count(f"{ACTOR}.megatron.expert_tensor_parallel_size") or facts.tp
    ep = facts.count(f"{ACTOR}.megatron.expert_model_parallel_size")
    size = product(expert_tp, ep, facts.pp)
    if facts.is_megatron and facts.devices and ep and ep > 1 and size and facts.devices % size:
        message = f"layout: expert tensor {expert_tp} × ep {ep} × pp {facts.pp} = {size} does not divide"
        rest = size // ep
        fits = [ep for ep in divisors(facts.devices) if facts.devices % (ep * rest) == 0]
        fix = f"layout.ep {one_of(near(fits, ep))}" if fits else "lower layout.tp or layout.pp"
        yield error(f"{message} the {facts.devices} devices", fix, "layout.ep")


@rule("RLX222")
def rollout_expert_tensors(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ROLLOUT}.moe_tensor_parallel_size"
    if (facts.count(key) or 1) > 1 and facts.setting(f"{ROLLOUT}.name") != "trtllm":
        yield error(f"{facts.named(key)}: only trtllm splits experts like that", f"remove {facts.source(key)}")


@rule("RLX226")
def noise_of_several_nodes(facts: VerlFacts) -> Iterator[Flaw]:
    aqn, nodes = facts.recipe.aqn, facts.recipe.layout.nodes
    if nodes > 1 and aqn and aqn.provider == "payload" and facts.release < (0, 7):
        message = f"layout.nodes {nodes} with aqn.provider payload: on verl {facts.settings.version} it needs one node"
        yield error(message, "layout.nodes 1, or backend.version 0.7 or later", "layout.nodes")
