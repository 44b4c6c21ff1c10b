"""Derive the numbers of a `Job` from a recipe and the settings that the back-end really gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rlx.preflight.memory.estimate import Estimate, estimate
from rlx.preflight.memory.job import Device, Job, Offload, Rollout, Split

if TYPE_CHECKING:
    from rlx.preflight.models.architectures import Architecture
    from rlx.recipe.schema import Recipe

ACTOR, REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
ROLLOUT, MODEL = "actor_rollout_ref.rollout", "actor_rollout_ref.model"

# "NPU out of memory … 60.97 GiB total capacity" of a 910B with 64 (github.com/vllm-project/vllm-ascend/issues/1987).
NPU = Device(64, 60.97)
_NPU_SHARE = NPU.capacity / NPU.size
# vLLM's own, where the back-end says nothing.
_BATCH, _SEQUENCES = 8192, 1024
_BYTES = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2}


class Settings(Protocol):
    def get(self, key: str) -> object:
        """The value as the back-end gets it; None: null, unknown, or known at start only."""


def device_of(recipe: Recipe, size: float | None = None) -> Device | None:
    """The device of `size` GiB; of unknown size only where nearly all of a kind have the same. None: not known.

    A CUDA device is all its own; of an NPU the driver keeps about a twentieth.
    """
    is_npu = recipe.layout.device == "npu"
    if size is None:
        return NPU if is_npu else None
    return Device(size, size * (_NPU_SHARE if is_npu else 1.0), assumed=False)


def estimate_of(recipe: Recipe, settings: Settings, shape: Architecture) -> Estimate | None:
    """Estimate; None where no device's memory is known, or the devices cannot be split like that."""
    device = device_of(recipe)
    if device is None:
        return None
    job = job_of(recipe, settings, shape, device)
    return estimate(job) if job.split.is_whole else None


def job_of(recipe: Recipe, settings: Settings, shape: Architecture, device: Device) -> Job:
    """Build the Job, also for a split that does not divide the devices; `estimate` needs one that does."""
    read = _Read(settings)
    split = _split(recipe, read)
    longest = recipe.data.max_prompt_tokens + recipe.data.max_response_tokens
    lora = recipe.model.lora
    fsdp = read.whole(f"{ACTOR}.fsdp_config.fsdp_size", 0)
    return Job(
        shape=shape,
        engine=recipe.backend.engine,
        split=split,
        rollout=_rollout(recipe, read, longest),
        device=device,
        update_tokens=_update_tokens(recipe, read, longest),
        log_prob_tokens=_log_prob_tokens(recipe, read, longest),
        shard_bytes=_BYTES.get(read.text(f"{ACTOR}.fsdp_config.model_dtype"), 4),
        fsdp_size=fsdp if 0 < fsdp <= split.devices else split.devices,
        recompute=_recompute(recipe, read),
        sequence_parallel=read.flag(f"{ACTOR}.megatron.sequence_parallel", True),
        distributed_optimizer=read.flag(f"{ACTOR}.megatron.use_distributed_optimizer", True),
        fused_logits=read.flag(f"{MODEL}.use_fused_kernels", False),
        reference=recipe.algorithm.kl is not None,
        critic=recipe.algorithm.kind == "ppo" or _is_nla(recipe),
        whole_critic=_is_nla(recipe) and read.whole("critic.output_layer_index", 0) != -1,
        lora_rank=lora.rank if lora else None,
        lora_targets=tuple(lora.targets) if lora and lora.targets != "all-linear" else None,
        offload=_offload(recipe, read, ACTOR),
        reference_offload=_offloads_reference(recipe, read),
    )


def _is_nla(recipe: Recipe) -> bool:
    """kitft/verl trains a critic with any algorithm."""
    return "nla" in (recipe.backend.entrypoint or "")


@dataclass(frozen=True, slots=True)
class _Read:
    settings: Settings

    def whole(self, key: str, default: int) -> int:
        value = self.settings.get(key)
        return value if type(value) is int else default

    def flag(self, key: str, default: bool) -> bool:
        value = self.settings.get(key)
        return value if isinstance(value, bool) else default

    def text(self, key: str) -> str:
        return str(self.settings.get(key))

    def fraction(self, key: str, default: float) -> float:
        value = self.settings.get(key)
        return float(value) if isinstance(value, int | float) and 0 < value <= 1 else default


def _split(recipe: Recipe, read: _Read) -> Split:
    layout = recipe.layout
    devices = layout.nodes * layout.devices_per_node
    if layout.pools:
        devices = layout.pools.get("actor", devices)
    if recipe.backend.engine != "megatron":
        return Split(devices, cp=layout.cp)
    # Megatron splits experts as it splits the rest, unless told otherwise.
    experts = read.whole(f"{ACTOR}.megatron.expert_tensor_parallel_size", layout.tp)
    return Split(devices, layout.tp, layout.pp, layout.cp, layout.ep, max(1, experts))


def _rollout(recipe: Recipe, read: _Read, longest: int) -> Rollout:
    rollout = recipe.rollout
    return Rollout(
        tp=rollout.tp,
        ep=rollout.ep,
        fraction=read.fraction(f"{ROLLOUT}.gpu_memory_utilization", rollout.memory_fraction),
        sequence=read.whole(f"{ROLLOUT}.max_model_len", longest),
        batch=read.whole(f"{ROLLOUT}.max_num_batched_tokens", _BATCH),
        sequences=read.whole(f"{ROLLOUT}.max_num_seqs", _SEQUENCES),
        dtype_bytes=_BYTES[recipe.model.dtype],
        sleeps=read.flag(f"{ROLLOUT}.free_cache_engine", True),
        colocated=recipe.layout.pools is None,
    )


def _update_tokens(recipe: Recipe, read: _Read, longest: int) -> int:
    """Read what dynamic batches are filled up to; a single longest sample may be more."""
    if read.flag(f"{ACTOR}.use_dynamic_bsz", False):
        return max(longest, read.whole(f"{ACTOR}.ppo_max_token_len_per_gpu", longest) * recipe.layout.cp)
    samples = read.whole(f"{ACTOR}.ppo_micro_batch_size_per_gpu", recipe.train.micro_batch_size)
    return samples * longest


def _log_prob_tokens(recipe: Recipe, read: _Read, longest: int) -> int:
    if read.flag(f"{ROLLOUT}.log_prob_use_dynamic_bsz", False):
        return max(longest, read.whole(f"{ROLLOUT}.log_prob_max_token_len_per_gpu", longest) * recipe.layout.cp)
    default = recipe.rollout.log_prob_micro_batch_size
    return read.whole(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", default) * longest


def _recompute(recipe: Recipe, read: _Read) -> bool:
    if recipe.backend.kind == "mindspeed-rl":
        sections = ("actor_config", "megatron_training")
        return any(read.text(f"{section}.recompute_granularity") == "full" for section in sections)
    if recipe.backend.engine == "megatron":
        return read.text(f"{ACTOR}.megatron.override_transformer_config.recompute_granularity") == "full"
    return read.flag(f"{MODEL}.enable_gradient_checkpointing", True)


def _offloads_reference(recipe: Recipe, read: _Read) -> bool:
    """Tell whether it leaves the device: always with FSDP (forward-only engine) and MindSpeed-RL (IntegratedWorker)."""
    always = recipe.backend.engine != "megatron" or recipe.backend.kind == "mindspeed-rl"
    return always or _offload(recipe, read, REF).weights


def _offload(recipe: Recipe, read: _Read, role: str) -> Offload:
    if recipe.backend.kind == "mindspeed-rl":
        parts = (read.flag(f"generate_config.offload_train_{part}", False) for part in ("param", "grad", "optimizer"))
        return Offload(*parts)
    section = f"{role}.{'megatron' if recipe.backend.engine == 'megatron' else 'fsdp_config'}"
    everything = recipe.backend.engine == "fsdp2" and read.flag(f"{section}.offload_policy", False)
    return Offload(
        weights=everything or read.flag(f"{section}.param_offload", False),
        gradients=everything or read.flag(f"{section}.grad_offload", False),
        optimizer=everything or read.flag(f"{section}.optimizer_offload", False),
    )
