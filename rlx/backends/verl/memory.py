"""Read from verl's settings what a device must hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.preflight.memory.inputs import DTYPE_BYTES, Settings, SettingsReader
from rlx.preflight.memory.job import Job, Offload, Rollout, Split

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

ACTOR, REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
ROLLOUT, MODEL = "actor_rollout_ref.rollout", "actor_rollout_ref.model"


def job(recipe: Recipe, settings: Settings, written: Job) -> Job:
    """The recipe's job with what verl is really told."""
    read, split = SettingsReader(settings), written.split
    fsdp = read.whole(f"{ACTOR}.fsdp_config.fsdp_size", 0)
    longest = written.rollout.sequence
    return replace(
        written,
        split=_split(written, read),
        rollout=_rollout(written.rollout, read),
        update_tokens=_update_tokens(recipe, read, longest),
        log_prob_tokens=_log_prob_tokens(recipe, read, longest),
        shard_bytes=DTYPE_BYTES.get(read.text(f"{ACTOR}.fsdp_config.model_dtype"), 4),
        fsdp_size=fsdp if 0 < fsdp <= split.devices else split.devices,
        recompute=_recompute(written, read),
        sequence_parallel=read.flag(f"{ACTOR}.megatron.sequence_parallel", True),
        distributed_optimizer=read.flag(f"{ACTOR}.megatron.use_distributed_optimizer", True),
        fused_logits=read.flag(f"{MODEL}.use_fused_kernels", False),
        critic=written.critic or _is_nla(recipe),
        whole_critic=_is_nla(recipe) and read.whole("critic.output_layer_index", 0) != -1,
        offload=_offload(recipe, read, ACTOR),
        reference_offload=not written.is_megatron or _offload(recipe, read, REF).weights,
    )


def _is_nla(recipe: Recipe) -> bool:
    """kitft/verl trains a critic with any algorithm."""
    return "nla" in (recipe.backend.entrypoint or "")


def _split(written: Job, read: SettingsReader) -> Split:
    if not written.is_megatron:
        return written.split
    experts = read.whole(f"{ACTOR}.megatron.expert_tensor_parallel_size", written.split.tp)
    return replace(written.split, etp=max(1, experts))


def _rollout(written: Rollout, read: SettingsReader) -> Rollout:
    return replace(
        written,
        fraction=read.fraction(f"{ROLLOUT}.gpu_memory_utilization", written.fraction),
        sequence=read.whole(f"{ROLLOUT}.max_model_len", written.sequence),
        batch=read.whole(f"{ROLLOUT}.max_num_batched_tokens", written.batch),
        sequences=read.whole(f"{ROLLOUT}.max_num_seqs", written.sequences),
        sleeps=read.flag(f"{ROLLOUT}.free_cache_engine", True),
    )


def _update_tokens(recipe: Recipe, read: SettingsReader, longest: int) -> int:
    """Read what dynamic batches are filled up to; a single longest sample may be more."""
    if read.flag(f"{ACTOR}.use_dynamic_bsz", False):
        return max(longest, read.whole(f"{ACTOR}.ppo_max_token_len_per_gpu", longest) * recipe.layout.cp)
    samples = read.whole(f"{ACTOR}.ppo_micro_batch_size_per_gpu", recipe.train.micro_batch_size)
    return samples * longest


def _log_prob_tokens(recipe: Recipe, read: SettingsReader, longest: int) -> int:
    if read.flag(f"{ROLLOUT}.log_prob_use_dynamic_bsz", False):
        return max(longest, read.whole(f"{ROLLOUT}.log_prob_max_token_len_per_gpu", longest) * recipe.layout.cp)
    default = recipe.rollout.log_prob_micro_batch_size
    return read.whole(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", default) * longest


def _recompute(written: Job, read: SettingsReader) -> bool:
    if written.is_megatron:
        return read.text(f"{ACTOR}.megatron.override_transformer_config.recompute_granularity") == "full"
    return read.flag(f"{MODEL}.enable_gradient_checkpointing", True)


def _offload(recipe: Recipe, read: SettingsReader, role: str) -> Offload:
    section = f"{role}.{'megatron' if recipe.backend.engine == 'megatron' else 'fsdp_config'}"
    everything = recipe.backend.engine == "fsdp2" and read.flag(f"{section}.offload_policy", False)
    return Offload(
        weights=everything or read.flag(f"{section}.param_offload", False),
        gradients=everything or read.flag(f"{section}.grad_offload", False),
        optimizer=everything or read.flag(f"{section}.optimizer_offload", False),
    )
