"""What verl asserts about groups, lengths and modes of a batch, beside its arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.preflight.rules.batch import SAMPLES
from rlx.preflight.rules.facts import ACTOR, MODEL, Facts
from rlx.preflight.rules.registry import Flaw, error, rule, warning


@rule(
    "RLX111",
    title="a sample can be longer than a dynamic micro batch",
    why="verl asserts that the longest sequence fits, in the middle of the run",
    fix="`ppo_max_token_len_per_gpu` of at least prompt plus response tokens, divided by the sequence parallel size",
    source="verl/utils/seqlen_balancing.py, rearrange_micro_batches: max_token_len must be greater than the sequence",
)
def dynamic_batch_holds_a_sample(facts: Facts) -> Iterator[Flaw]:
    key = f"{ACTOR}.ppo_max_token_len_per_gpu"
    limit, longest, cp = facts.count(key), facts.longest, facts.cp
    if not facts.fixed_micro_batches and limit and longest and cp and limit * cp < longest:
        needed = -(-longest // cp)
        message = f"{facts.named(key)} × {cp} sequence-parallel devices is less than the {longest} tokens of a sample"
        yield error(message, f"{key} {needed} or more")


@rule(
    "RLX112",
    title="a group of one sample",
    why="GRPO and RLOO compare the samples of a prompt; with one there is no baseline",
    fix="`rollout.n` of 2 or more, or another algorithm",
    source="verl/trainer/ppo/core_algos.py, compute_grpo_outcome_advantage: a group of one has mean 0 and deviation 1",
)
def groups_to_compare(facts: Facts) -> Iterator[Flaw]:
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
def loss_aggregation(facts: Facts) -> Iterator[Flaw]:
    key = f"{ACTOR}.loss_agg_mode"
    modes = ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
    modes += ["token-sum"] if facts.release >= (0, 9) else []
    value = facts.setting(key)
    if isinstance(value, str) and value not in modes:
        yield error(f"{facts.named(key)}: verl has no such mode", f"use {', '.join(modes)}")


@rule(
    "RLX114",
    title="a validation batch of no rows",
    why="the data loader refuses it when the trainer starts",
    fix="remove `data.val_batch_size`",
    source="verl trainer, _create_dataloader: batch_size should be a positive integer value, but got batch_size=0",
)
def validation_batch(facts: Facts) -> Iterator[Flaw]:
    key = "data.val_batch_size"
    size = facts.whole(key)
    if size is not None and size < 1:
        yield error(f"{facts.named(key)}: a batch has at least one row", "remove it: the whole set is one batch")


@rule(
    "RLX115",
    title="sequences are split over devices without removing padding",
    why="verl refuses the configuration at the start",
    fix="leave `use_remove_padding` on, or `layout.cp` 1",
    source="verl/workers/config/actor.py: When using sequence parallelism …, you must enable `use_remove_padding`",
)
def padding_and_sequence_parallelism(facts: Facts) -> Iterator[Flaw]:
    key = f"{MODEL}.use_remove_padding"
    if not facts.is_megatron and (facts.cp or 1) > 1 and not facts.is_true(key):
        yield error(f"layout.cp {facts.cp} with {facts.named(key)}", f"remove {facts.source(key)}")
