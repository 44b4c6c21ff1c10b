"""`eval: post`: whether the checkpoint will be there that it evaluates."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, MODEL, VerlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, rule

_SAVE = "trainer.save_freq"


@rule("RLX743")
def last_checkpoint(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.recipe.eval.post is None:
        return
    every, ends, asked = facts.whole(_SAVE), facts.steps_of_data, facts.count("trainer.total_training_steps")
    if not every or every < 1:
        fits = f"train.save_every {facts.steps}" if facts.steps else "set train.save_every"
        named = facts.named(_SAVE) if facts.recipe.train.save_every else "train.save_every null"
        yield error(f"{named}: eval.post would find no checkpoint", fits, "train.save_every")
    elif ends and asked and ends < asked and ends % every:
        message = f"{facts.named(_SAVE)}: the data ends at step {ends} of {asked}, and that step is not saved"
        yield error(message, f"train.save_every {one_of(near(divisors(ends), every))}", "train.save_every")


@rule("RLX744")
def readable_checkpoint(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.recipe.eval.post is None:
        return
    contents = facts.setting(f"{ACTOR}.checkpoint.save_contents")
    if isinstance(contents, list | tuple) and "model" not in contents:
        key = facts.source(f"{ACTOR}.checkpoint.save_contents")
        yield error(f"{key}: the checkpoint would have no model to evaluate", f"remove {key}", key)
    for key in ("trainer.default_local_dir", f"{ACTOR}.checkpoint.async_save"):
        if facts.source(key).startswith("overrides.") and facts.setting(key):
            message = f"{facts.named(key)}: eval.post looks for a finished checkpoint in the run directory"
            yield error(message, f"remove {facts.source(key)}", facts.source(key))
    if facts.is_megatron and facts.lora_rank:
        message = f"{facts.named(f'{MODEL}.lora.rank')}: Megatron's checkpoints keep adapters apart from the weights"
        yield error(message, "eval.post null, or backend.engine fsdp", "model.lora.rank")
    if facts.recipe.layout.nodes > 1:
        message = f"layout.nodes {facts.recipe.layout.nodes}: each machine would keep its part of the checkpoint"
        yield error(message, "eval.post null, or layout.nodes 1", "layout.nodes")
