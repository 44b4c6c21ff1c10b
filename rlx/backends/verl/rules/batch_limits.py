"""Hold groups, lengths and modes of a batch against what verl asserts, beside its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.batch import LOG_MICRO, MICRO, MINI, SAMPLES
from rlx.backends.verl.rules.facts import ACTOR, MODEL, VerlFacts
from rlx.preflight.rules.rule_table import Flaw, error, rule, warning


@rule(
    "RLX111",
    title="a sample can be longer than a dynamic micro batch",
    why="verl asserts that the longest sequence fits: 0.8 and later as soon as a sample is that long, earlier at once",
    fix="`ppo_max_token_len_per_gpu` of at least prompt plus response tokens, divided by the sequence parallel size",
    source="verl/utils/seqlen_balancing.py, rearrange_micro_batches: max_token_len must be greater than the sequence "
    "length",
)
def dynamic_batch_holds_a_sample(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    limit, longest, cp = facts.count(key), facts.longest, facts.cp
    if not facts.fixed_micro_batches and limit and longest and cp and limit * cp < longest:
        needed = -(-longest // cp)
        message = f"{facts.named(key)} × {cp} sequence-parallel devices is less than the {longest} tokens of a sample"
        # Before 0.8 every sample is padded to its longest; later ones count what it really has.
        say = error if facts.release < (0, 8) else warning
        yield say(message, f"{key} {needed} or more", facts.source(key))


@rule(
    "RLX112",
    title="a group of one sample",
    why="GRPO and RLOO compare the samples of a prompt; with one there is no baseline",
    fix="`rollout.n` of 2 or more, or another algorithm",
    source="verl/trainer/ppo/core_algos.py, compute_grpo_outcome_advantage: a group of one has mean 0 and deviation 1",
)
def groups_to_compare(facts: VerlFacts) -> Iterator[Flaw]:
    kind = facts.setting("algorithm.adv_estimator")
    if kind in ("grpo", "rloo") and facts.whole(SAMPLES) == 1:
        message = f"algorithm.kind {kind} with {facts.named(SAMPLES)}: advantages have no baseline"
        yield warning(message, "rollout.n 2 or more", facts.source(SAMPLES))


@rule(
    "RLX113",
    title="a way to aggregate the loss that verl does not know",
    why="verl refuses the configuration at the start",
    fix="one of its modes",
    source="verl/workers/config/actor.py, valid_loss_agg_modes",
)
def loss_aggregation(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ACTOR}.loss_agg_mode"
    modes = ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
    modes += ["token-sum"] if facts.release >= (0, 9) else []
    value = facts.setting(key)
    if isinstance(value, str) and value not in modes:
        yield error(f"{facts.named(key)}: verl has no such mode", f"use {', '.join(modes)}")


@rule(
    "RLX114",
    title="a validation batch of no rows",
    why="the data loader refuses it when the trainer starts; 0 is the whole set in verl 0.9 only",
    fix="remove `data.val_batch_size`",
    source="verl 0.6.1 to 0.8.0, _create_dataloader: batch_size should be a positive integer value, but got "
    "batch_size=0; 0.9.1: val_batch_size or len(val_dataset), run with 0",
)
def validation_batch(facts: VerlFacts) -> Iterator[Flaw]:
    key = "data.val_batch_size"
    size = facts.whole(key)
    if size is not None and (size < 0 or (size == 0 and facts.release < (0, 9))):
        yield error(f"{facts.named(key)}: a batch has at least one row", "remove it: the whole set is one batch")


@rule(
    "RLX115",
    title="sequences are split over devices without removing padding",
    why="verl refuses the configuration at the start",
    fix="leave `use_remove_padding` on, or `layout.cp` 1",
    source="verl/workers/config/actor.py: When using sequence parallelism …, you must enable `use_remove_padding`",
)
def padding_and_sequence_parallelism(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{MODEL}.use_remove_padding"
    if not facts.is_megatron and (facts.cp or 1) > 1 and not facts.is_true(key):
        yield error(f"layout.cp {facts.cp} with {facts.named(key)}", f"remove {facts.source(key)}")


@rule(
    "RLX117",
    title="only the deprecated micro batch size is set",
    why="verl 0.8 and later assert in their workers that the one with `_per_gpu` is; earlier ones divide the other",
    fix="remove what takes `train.micro_batch_size` or `rollout.log_prob_micro_batch_size` away",
    source="verl 0.8.0 :577 and 0.9.1 :639, workers/engine_workers.py: micro_batch_size_per_gpu is not None; "
    "all: workers/config/actor.py, validate: ppo_mini_batch_size % ppo_micro_batch_size",
)
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


@rule(
    "RLX119",
    title="the asynchronous trainer's batch is not what it updates between two syncs",
    why="verl asserts it when the trainer starts",
    fix="`train.batch_size` = parameter_sync_step × `train.mini_batch_size`",
    source="verl 0.9.1 trainer/ppo/v1/trainer_separate_async.py: train_batch_size must equal parameter_sync_step * "
    "ppo_mini_batch_size in separate async training",
)
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
