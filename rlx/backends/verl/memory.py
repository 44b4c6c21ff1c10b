"""Read from verl's settings what a device must hold."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from rlx.planning.memory.job import (
    DTYPE_BYTES,
    BackendSettings,
    Count,
    Offload,
    Recompute,
    RolloutSetup,
    SettingsReader,
    Split,
    TrainingSetup,
    filled_tokens,
    fixed_tokens,
    megatron_recompute,
    short,
)

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

ACTOR, REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
ROLLOUT, MODEL = "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_DDP, _TRANSFORMER = (f"{ACTOR}.megatron.override_{part}_config" for part in ("ddp", "transformer"))
_OPTIM = (f"{ACTOR}.optim", f"{ACTOR}.optim.override_optimizer_config")


def job(recipe: Recipe, settings: BackendSettings, written: TrainingSetup) -> TrainingSetup:
    """Complete the recipe's job with verl's effective settings."""
    read, split = SettingsReader(settings), written.split
    fsdp = read.whole(f"{ACTOR}.fsdp_config.fsdp_size", 0)
    longest = written.rollout.sequence
    samples = recipe.train.mini_batch_size * (1 if _is_nla(recipe) else recipe.rollout.n) / max(1, split.data)
    update = _update_tokens(recipe, read, written, samples)
    # The micro batches of an update.
    steps = Count(ceil(samples * short(longest) / update.typical), ceil(samples * longest / update.longest))
    return replace(
        written,
        split=_split(written, read),
        rollout=_rollout(written.rollout, read),
        update_tokens=update,
        log_prob_tokens=_log_prob_tokens(recipe, read, written),
        dynamic_batches=read.flag(f"{ACTOR}.use_dynamic_bsz", False),
        update_steps=steps,
        shard_bytes=DTYPE_BYTES.get(read.text(f"{ACTOR}.fsdp_config.model_dtype"), 4),
        gradient_bytes=_gradient_bytes(read),
        optimizer_bytes=_optimizer_bytes(read, is_npu=recipe.layout.device == "npu"),
        fsdp_size=fsdp if 0 < fsdp <= split.devices else split.devices,
        recompute=_recompute(written, read),
        sequence_parallel=read.flag(f"{ACTOR}.megatron.sequence_parallel", True),
        distributed_optimizer=read.flag(f"{ACTOR}.megatron.use_distributed_optimizer", True),
        fused_logits=read.flag(f"{MODEL}.use_fused_kernels", False),
        entropy_logits=_entropy_logits(read),
        defers_sync=read.flag(f"{ACTOR}.fsdp_config.use_no_sync_for_gradient_accumulation", False),
        critic=written.critic or _is_nla(recipe),
        whole_critic=_is_nla(recipe) and read.whole("critic.output_layer_index", 0) != -1,
        offload=_offload(recipe, read, ACTOR),
        reference_offload=not written.is_megatron or _offload(recipe, read, REF).weights,
    )


def _is_nla(recipe: Recipe) -> bool:
    """kitft/verl trains a critic with any algorithm."""
    return "nla" in (recipe.backend.entrypoint or "")


def _split(written: TrainingSetup, read: SettingsReader) -> Split:
    if not written.is_megatron:
        return written.split
    experts = read.whole(f"{ACTOR}.megatron.expert_tensor_parallel_size", written.split.tp)
    return replace(written.split, etp=max(1, experts))


def _rollout(written: RolloutSetup, read: SettingsReader) -> RolloutSetup:
    return replace(
        written,
        fraction=read.fraction(f"{ROLLOUT}.gpu_memory_utilization", written.fraction),
        sequence=read.whole(f"{ROLLOUT}.max_model_len", written.sequence),
        batch=read.whole(f"{ROLLOUT}.max_num_batched_tokens", written.batch),
        sequences=read.whole(f"{ROLLOUT}.max_num_seqs", written.sequences),
        sleeps=read.flag(f"{ROLLOUT}.free_cache_engine", True),
    )


def _update_tokens(recipe: Recipe, read: SettingsReader, written: TrainingSetup, samples: float) -> Count:
    longest = written.rollout.sequence
    if read.flag(f"{ACTOR}.use_dynamic_bsz", False):
        limit = read.whole(f"{ACTOR}.ppo_max_token_len_per_gpu", longest) * written.split.cp
        return filled_tokens(limit, samples, longest)
    return fixed_tokens(read.whole(f"{ACTOR}.ppo_micro_batch_size_per_gpu", recipe.train.micro_batch_size), longest)


def _log_prob_tokens(recipe: Recipe, read: SettingsReader, written: TrainingSetup) -> Count:
    longest = written.rollout.sequence
    if read.flag(f"{ROLLOUT}.log_prob_use_dynamic_bsz", False):
        limit = read.whole(f"{ROLLOUT}.log_prob_max_token_len_per_gpu", longest) * written.split.cp
        samples = recipe.train.batch_size * recipe.rollout.n / max(1, written.split.data)
        return filled_tokens(limit, samples, longest)
    default = recipe.rollout.log_prob_micro_batch_size
    return fixed_tokens(read.whole(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", default), longest)


def _recompute(written: TrainingSetup, read: SettingsReader) -> Recompute:
    if not written.is_megatron:
        return Recompute(full=read.flag(f"{MODEL}.enable_gradient_checkpointing", True))
    return megatron_recompute(read, _TRANSFORMER, written.shape.layers)


def _optimizer_bytes(read: SettingsReader, *, is_npu: bool) -> float:
    """Bytes of Megatron's Adam on the device, a parameter: the master and both moments.

    Of Adam on the CPU that fraction is on the host. On NPUs, where verl offloads the optimizer besides, the rest does
    not come back: verl 0.9.1 load_megatron_optimizer leaves the place to Megatron's HybridDeviceOptimizer, which takes
    the states of its CPU optimizer's class to the host, and without Transformer Engine both halves are of that class.
    """
    own, whole = _OPTIM[1], _whole_optimizer_bytes(read)
    if not read.flag(f"{own}.optimizer_cpu_offload", False):
        return whole
    if is_npu and read.flag(f"{ACTOR}.megatron.optimizer_offload", False):
        return 0.0
    return whole * (1 - read.fraction(f"{own}.optimizer_offload_fraction", 0.0))


def _gradient_bytes(read: SettingsReader) -> int:
    """Gradients of 32 bits, but in verl 0.9.1 of 16 for a precision-aware optimizer that wants them so."""
    in_16_bits = _is_precision_aware(read) and DTYPE_BYTES.get(read.text(f"{ACTOR}.optim.main_grads_dtype"), 4) == 2
    return 4 if read.flag(f"{_DDP}.grad_reduce_in_fp32", not in_16_bits) else 2


def _whole_optimizer_bytes(read: SettingsReader) -> int:
    """Count twelve bytes, or those of the dtypes that only Megatron's precision-aware optimizer reads."""
    parts = ("main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
    return sum(_dtype_bytes(read, part) for part in parts) if _is_precision_aware(read) else 12


def _is_precision_aware(read: SettingsReader) -> bool:
    return any(read.flag(f"{section}.use_precision_aware_optimizer", False) for section in _OPTIM)


def _dtype_bytes(read: SettingsReader, key: str) -> int:
    """Read a dtype; the last section that sets it counts."""
    sizes = [DTYPE_BYTES[word] for section in _OPTIM if (word := read.text(f"{section}.{key}")) in DTYPE_BYTES]
    return sizes[-1] if sizes else 4


def _entropy_logits(read: SettingsReader) -> tuple[bool, bool]:
    """Whether log-probabilities and the update hold 32-bit copies of the logits for the entropy."""
    whole = not read.flag(f"{ACTOR}.entropy_from_logits_with_chunking", False)
    trained = read.settings.get(f"{ACTOR}.entropy_coeff") not in (None, 0, 0.0)
    return whole, whole and trained and not read.flag(f"{ACTOR}.entropy_checkpointing", False)


def _offload(recipe: Recipe, read: SettingsReader, role: str) -> Offload:
    section = f"{role}.{'megatron' if recipe.backend.engine == 'megatron' else 'fsdp_config'}"
    everything = recipe.backend.engine == "fsdp2" and read.flag(f"{section}.offload_policy", False)
    return Offload(
        weights=everything or read.flag(f"{section}.param_offload", False),
        gradients=everything or read.flag(f"{section}.grad_offload", False),
        optimizer=everything or read.flag(f"{section}.optimizer_offload", False),
    )
