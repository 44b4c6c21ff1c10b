"""Refuse what verl, or rlx with verl, cannot do at all."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.batch import BYPASS
from rlx.backends.verl.rules.facts import ACTOR, ROLLOUT, VerlFacts
from rlx.planning.rules.number_text import one_of, product
from rlx.planning.rules.rule_table import Flaw, error, rule, warning


@rule("RLX201")
def fsdp_splits(facts: VerlFacts) -> Iterator[Flaw]:
    layout = facts.recipe.layout
    if not facts.is_megatron and (layout.tp, layout.pp, layout.ep) != (1, 1, 1):
        message = f"layout: {facts.recipe.backend.engine} splits no tensors, pipelines or experts"
        yield error(message, "leave tp, pp and ep at 1, or use backend.engine: megatron", "layout.tp")


@rule("RLX202")
def pools(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.recipe.layout.pools is not None:
        yield error("layout.pools: verl places all roles on all devices", "remove it", "layout.pools")


@rule("RLX203")
def nodes(facts: VerlFacts) -> Iterator[Flaw]:
    started, counted = facts.recipe.layout.nodes, facts.count("trainer.nnodes")
    if counted and counted != started:
        message = f"{facts.named('trainer.nnodes')}: rlx starts {started} (layout.nodes)"
        yield error(message, f"layout.nodes {counted}, and nothing in overrides", facts.source("trainer.nnodes"))


@rule("RLX204")
def expert_groups_of_rollout(facts: VerlFacts) -> Iterator[Flaw]:
    key, tp_key = f"{ROLLOUT}.expert_parallel_size", f"{ROLLOUT}.tensor_model_parallel_size"
    ep, tp, replicas = facts.count(key), facts.count(tp_key), facts.count(f"{ROLLOUT}.data_parallel_size") or 1
    if not ep or ep == 1 or not tp or ep == product(tp, replicas) or facts.setting(f"{ROLLOUT}.name") == "trtllm":
        return
    is_written = facts.source(f"{ROLLOUT}.data_parallel_size").startswith("overrides.")
    fits = [tp * replicas] if is_written else [tp * replicas, tp * (replicas + 1)]
    message = f"{facts.named(key)}: verl splits experts over whole groups of {facts.named(tp_key)}"
    yield error(message + (f" × {replicas}" if is_written else ""), f"rollout.ep {one_of(fits)}", facts.source(key))


@rule("RLX224")
def megatron_precision(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.megatron.dtype"
    value = facts.setting(key)
    if facts.is_megatron and isinstance(value, str) and value not in ("bfloat16", "float16"):
        yield error(
            f"{facts.named(key)}: Megatron takes bfloat16 or float16", "model.dtype bfloat16", facts.source(key)
        )


@rule("RLX118")
def router_replay(facts: VerlFacts) -> Iterator[Flaw]:
    for section in ("", ".megatron", ".fsdp_config"):
        key = f"{ACTOR}{section}.router_replay.mode"
        mode = facts.setting(key)
        if mode is not None and mode not in ("disabled", "R2", "R3"):
            yield error(f"{facts.named(key)}: verl has no such mode", "disabled, R2 or R3", facts.source(key))
        elif mode == "R2" and facts.is_true(BYPASS) and facts.release >= (0, 9):
            message = f"{facts.named(key)} records routes in a pass that {facts.named(BYPASS)} leaves out"
            yield error(message, f"{BYPASS}: false, or R3", facts.source(key))


@rule("RLX228")
def transformers_rollout(facts: VerlFacts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.rollout.engine == "transformers" and recipe.layout.device != "cpu":  # RLX405 has the other words
        yield error("rollout.engine transformers: verl has none", "rollout.engine vllm", "rollout.engine")


@rule("RLX610")
def noise_provider(facts: VerlFacts) -> Iterator[Flaw]:
    aqn, engine = facts.recipe.aqn, facts.recipe.rollout.engine
    if aqn and aqn.provider == "payload" and engine not in ("cpu", "vllm"):
        message = f"aqn.provider payload: rlx brings no noise for rollout.engine {engine}"
        yield error(message, "use aqn.provider: builtin with a verl that has trainer.noise_injection", "aqn.provider")


@rule("RLX611")
def noise_length(facts: VerlFacts) -> Iterator[Flaw]:
    recipe, aqn = facts.recipe, facts.recipe.aqn
    if aqn and recipe.data.train_rows is None and (aqn.provider == "builtin" or recipe.train.steps is None):
        message = "aqn: the noise is spread over the whole run, whose length is not known"
        yield error(message, "give data.train_rows", "data.train_rows")


@rule("RLX612")
def noise_in_validation(facts: VerlFacts) -> Iterator[Flaw]:
    aqn = facts.recipe.aqn
    if aqn and aqn.provider == "builtin" and not facts.recipe.eval.noise:
        message = "aqn.provider builtin: the fork injects its noise into validations too"
        yield warning(message, "declare it: eval.noise: true", "eval.noise")


@rule("RLX643")
def asynchronous_noise(facts: VerlFacts) -> Iterator[Flaw]:
    aqn, key = facts.recipe.aqn, "trainer.v1.trainer_mode"
    if aqn and aqn.provider == "payload" and facts.uses_v1 and facts.setting(key) != "sync":
        message = f"{facts.named(key)} with aqn.provider payload: what is generated during a sync may be clean"
        yield error(message, f"{key} sync", facts.source(key))


@rule("RLX240")
def unnumbered_version(facts: VerlFacts) -> Iterator[Flaw]:
    version = facts.settings.version
    if not facts.release:
        fix = 'backend.version: the number of that verl, such as "0.10.0.dev"'
        yield warning(f"backend.version {version}: rules on versions take it for the oldest", fix, "backend.version")
