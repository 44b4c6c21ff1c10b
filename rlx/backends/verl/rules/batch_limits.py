"""Hold groups, lengths and modes of a batch against what verl asserts, beside its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.batch import LOG_MICRO, MICRO, MINI, SAMPLES
from rlx.backends.verl.rules.facts import ACTOR, MODEL, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning


@rule("RLX111")
def dynamic_batch_holds_a_sample(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    limit, longest, cp = facts.count(key), facts.longest, facts.cp
    if not facts.fixed_micro_batches and limit and longest and cp and limit * cp < longest:
        needed = -(-longest // cp)
        message = f"{facts.named(key)} × {cp} sequence-parallel devices is less than the {longest} tokens of a sample"
        # Before 0.8 every sample is padded to its longest; later ones count what it really has.
        say = error if facts.release < (0, 8) else warning
        yield say(message, f"{key} {needed} or more", facts.source(key))


@rule("RLX112")
def groups_to_compare(facts: VerlFacts) -> Iterator[Flaw]:
    kind = facts.setting("algorithm.adv_estimator")
    if kind in ("grpo", "rloo") and facts.whole(SAMPLES) == 1:
        message = f"algorithm.kind {kind} with {facts.named(SAMPLES)}: advantages have no baseline"
        yield warning(message, "rollout.n 2 or more", facts.source(SAMPLES))


@rule("RLX113")
def loss_aggregation(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.loss_agg_mode"
    modes = ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
    modes += ["token-sum"] if facts.release >= (0, 9) else []
    value = facts.setting(key)
    if isinstance(value, str) and value not in modes:
        yield error(f"{facts.named(key)}: verl has no such mode", f"use {', '.join(modes)}")


@rule("RLX114")
def validation_batch(facts: VerlFacts) -> Iterator[Flaw]:
    key = "data.val_batch_size"
    size = facts.whole(key)
    if size is not None and (size < 0 or (size == 0 and facts.release < (0, 9))):
        yield error(f"{facts.named(key)}: a batch has at least one row", "remove it: the whole set is one batch")


@rule("RLX115")
def padding_and_sequence_parallelism(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{MODEL}.use_remove_padding"
    if not facts.is_megatron and (facts.cp or 1) > 1 and not facts.is_true(key):
        yield error(f"layout.cp {facts.cp} with {facts.named(key)}", f"remove {facts.source(key)}")


@rule("RLX117")
def deprecated_micro_batch(facts: VerlFacts) -> Iterator[Flaw]:
    if not facts.fixed_micro_batches:
        return
    for key in (MICRO, LOG_MICRO):
        old = key.removesuffix("_per_gpu")
        if facts.release >= (0, 8) and facts.setting(key) is None and facts.setting(old) is not None:
            yield error(f"{facts.named(old)}: verl {facts.settings.version} reads {key} only", f"set {key}", old)
    old, mini = MICRO.removesuffix("_per_gpu"), facts.count(MINI)
    size = facts.count(old)
    if size and mini and mini % size:
        yield error(f"{facts.named(old)} does not divide {facts.named(MINI)}", f"set {MICRO} instead", old)


@rule("RLX119")
def asynchronous_batch(facts: VerlFacts) -> Iterator[Flaw]:
    mode, key = "trainer.v1.trainer_mode", "trainer.v1.separate_async.parameter_sync_step"
    batch, mini, updates = facts.count("data.train_batch_size"), facts.count(MINI), facts.count(key)
    if facts.setting(mode) != "separate_async" or not facts.uses_v1 or not (batch and mini and updates):
        return
    if batch != updates * mini:
        message = f"{facts.named(mode)}: {facts.named('data.train_batch_size')} is not {facts.named(key)}"
        fits = f"train.batch_size {updates * mini}"
        exact = f", or train.mini_batch_size {batch // updates}" if batch % updates == 0 else ""
        yield error(f"{message} × {facts.named(MINI)}", fits + exact, facts.source(mode))
