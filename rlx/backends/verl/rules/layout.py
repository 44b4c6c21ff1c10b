"""Check how the work is split over devices: what verl, Megatron and vLLM assert, and what none of them can do."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.key_names import BYPASS
from rlx.backends.verl.rules.facts import ACTOR, ROLLOUT, VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of, product
from rlx.planning.rules.rule_table import RuleFinding, error, rule, warning

ROLLOUT_TP = f"{ROLLOUT}.tensor_model_parallel_size"


@rule("RLX205")
def training_split(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.is_megatron and facts.devices and facts.model_parallel and facts.devices % facts.model_parallel:
        message = f"layout: tp {facts.tp} × pp {facts.pp} × cp {facts.cp} = {facts.model_parallel} does not divide"
        fits = one_of(near(divisors(facts.devices), facts.model_parallel))
        yield error(f"{message} the {facts.devices} devices", f"make the product {fits}", "layout.tp")


@rule("RLX206")
def sequence_split(facts: VerlFacts) -> Iterator[RuleFinding]:
    if not facts.is_megatron and facts.devices and facts.cp and facts.devices % facts.cp:
        message = f"layout.cp {facts.cp} does not divide the {facts.devices} devices"
        yield error(message, f"use {one_of(near(divisors(facts.devices), facts.cp))}", "layout.cp")


@rule("RLX207")
def rollout_replicas(facts: VerlFacts) -> Iterator[RuleFinding]:
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
def rollout_pipeline(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ROLLOUT}.pipeline_model_parallel_size"
    if (facts.count(key) or 1) > 1:
        yield error(f"{facts.named(key)}: the rollout has no pipelines", f"remove {facts.source(key)}")


@rule("RLX227")
def dense_data_parallel(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, shape = f"{ROLLOUT}.data_parallel_size", facts.architecture
    if facts.release < (0, 9) or facts.setting(f"{ROLLOUT}.name") != "vllm" or (facts.count(key) or 1) == 1:
        return
    if shape is not None and shape.experts is None:
        message = f"{facts.named(key)}: {shape.name} has no experts, and the first weight sync hangs"
        yield error(message, f"{key} 1: there are several replicas then", facts.source(key))


@rule("RLX209")
def expert_groups(facts: VerlFacts) -> Iterator[RuleFinding]:
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
def rollout_expert_tensors(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ROLLOUT}.moe_tensor_parallel_size"
    if (facts.count(key) or 1) > 1 and facts.setting(f"{ROLLOUT}.name") != "trtllm":
        yield error(f"{facts.named(key)}: only trtllm splits experts like that", f"remove {facts.source(key)}")


@rule("RLX201")
def fsdp_splits(facts: VerlFacts) -> Iterator[RuleFinding]:
    layout = facts.recipe.layout
    if not facts.is_megatron and (layout.tp, layout.pp, layout.ep) != (1, 1, 1):
        message = f"layout: {facts.recipe.backend.engine} splits no tensors, pipelines or experts"
        yield error(message, "leave tp, pp and ep at 1, or use backend.engine: megatron", "layout.tp")


@rule("RLX202")
def pools(facts: VerlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.layout.pools is not None:
        yield error("layout.pools: verl places all roles on all devices", "remove it", "layout.pools")


@rule("RLX203")
def nodes(facts: VerlFacts) -> Iterator[RuleFinding]:
    started, counted = facts.recipe.layout.nodes, facts.count("trainer.nnodes")
    if counted and counted != started:
        message = f"{facts.named('trainer.nnodes')}: rlx starts {started} (layout.nodes)"
        yield error(message, f"layout.nodes {counted}, and nothing in overrides", facts.source("trainer.nnodes"))


@rule("RLX204")
def expert_groups_of_rollout(facts: VerlFacts) -> Iterator[RuleFinding]:
    key, tp_key = f"{ROLLOUT}.expert_parallel_size", f"{ROLLOUT}.tensor_model_parallel_size"
    ep, tp, replicas = facts.count(key), facts.count(tp_key), facts.count(f"{ROLLOUT}.data_parallel_size") or 1
    if not ep or ep == 1 or not tp or ep == product(tp, replicas) or facts.setting(f"{ROLLOUT}.name") == "trtllm":
        return
    is_written = facts.source(f"{ROLLOUT}.data_parallel_size").startswith("overrides.")
    fits = [tp * replicas] if is_written else [tp * replicas, tp * (replicas + 1)]
    message = f"{facts.named(key)}: verl splits experts over whole groups of {facts.named(tp_key)}"
    yield error(message + (f" × {replicas}" if is_written else ""), f"rollout.ep {one_of(fits)}", facts.source(key))


@rule("RLX224")
def megatron_precision(facts: VerlFacts) -> Iterator[RuleFinding]:
    key = f"{ACTOR}.megatron.dtype"
    value = facts.setting(key)
    if facts.is_megatron and isinstance(value, str) and value not in ("bfloat16", "float16"):
        yield error(
            f"{facts.named(key)}: Megatron takes bfloat16 or float16", "model.dtype bfloat16", facts.source(key)
        )


@rule("RLX118")
def router_replay(facts: VerlFacts) -> Iterator[RuleFinding]:
    for section in ("", ".megatron", ".fsdp_config"):
        key = f"{ACTOR}{section}.router_replay.mode"
        mode = facts.setting(key)
        if mode is not None and mode not in ("disabled", "R2", "R3"):
            yield error(f"{facts.named(key)}: verl has no such mode", "disabled, R2 or R3", facts.source(key))
        elif mode == "R2" and facts.is_true(BYPASS) and facts.release >= (0, 9):
            message = f"{facts.named(key)} records routes in a pass that {facts.named(BYPASS)} leaves out"
            yield error(message, f"{BYPASS}: false, or R3", facts.source(key))


@rule("RLX228")
def transformers_rollout(facts: VerlFacts) -> Iterator[RuleFinding]:
    recipe = facts.recipe
    if recipe.rollout.engine == "transformers" and recipe.layout.device != "cpu":  # RLX405 has the other words
        yield error("rollout.engine transformers: verl has none", "rollout.engine vllm", "rollout.engine")


@rule("RLX240")
def unnumbered_version(facts: VerlFacts) -> Iterator[RuleFinding]:
    version = facts.settings.version
    if not facts.release:
        fix = 'backend.version: the number of that verl, such as "0.10.0.dev"'
        yield warning(f"backend.version {version}: rules on versions take it for the oldest", fix, "backend.version")
