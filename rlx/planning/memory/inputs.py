"""Derive the numbers of a `Job` from a recipe and the settings that its back-end really gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rlx.backends.registry import optional_part
from rlx.planning.memory.estimate import Estimate, estimate
from rlx.planning.memory.job import Count, Device, Job, Offload, Recompute, Rollout, Split

if TYPE_CHECKING:
    from rlx.planning.models.architectures import Architecture
    from rlx.recipe.schema import Recipe

# "NPU out of memory … 60.97 GiB total capacity" of a 910B with 64 (github.com/vllm-project/vllm-ascend/issues/1987).
NPU = Device(64, 60.97)
_NPU_SHARE = NPU.capacity / NPU.size
# vLLM's own, where the back-end says nothing.
_BATCH, _SEQUENCES = 8192, 1024
# The longest sample, as a multiple of a short one. Fitted: see docs/dev/memory-model.md.
_LONGEST = 8
DTYPE_BYTES = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2}


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
    """As the back-end's module `memory` reads its settings, if it has one. `estimate` needs a split that is whole."""
    written = plain_job(recipe, shape, device)
    own = optional_part(recipe.backend.kind, "memory")
    job: Job = own.job(recipe, settings, written) if own else written
    return job


def plain_job(recipe: Recipe, shape: Architecture, device: Device) -> Job:
    """What the recipe alone says."""
    lora, rollout, split = recipe.model.lora, recipe.rollout, _split(recipe)
    longest = recipe.data.max_prompt_tokens + recipe.data.max_response_tokens
    is_megatron = recipe.backend.engine == "megatron"
    return Job(
        shape=shape,
        engine=recipe.backend.engine,
        split=split,
        rollout=Rollout(
            tp=rollout.tp,
            ep=rollout.ep,
            fraction=rollout.memory_fraction,
            sequence=longest,
            batch=_BATCH,
            sequences=_SEQUENCES,
            dtype_bytes=DTYPE_BYTES[recipe.model.dtype],
            sleeps=True,
            colocated=recipe.layout.pools is None,
        ),
        device=device,
        update_tokens=fixed_tokens(recipe.train.micro_batch_size, longest),
        log_prob_tokens=fixed_tokens(rollout.log_prob_micro_batch_size, longest),
        shard_bytes=4,
        fsdp_size=split.devices,
        recompute=Recompute(full=not is_megatron),
        sequence_parallel=True,
        distributed_optimizer=True,
        fused_logits=False,
        reference=recipe.algorithm.kl is not None,
        critic=recipe.algorithm.kind == "ppo",
        whole_critic=False,
        lora_rank=lora.rank if lora else None,
        lora_targets=tuple(lora.targets) if lora and lora.targets != "all-linear" else None,
        offload=Offload(False, False, False),
        # The shards of FSDP always leave the device.
        reference_offload=not is_megatron,
    )


def fixed_tokens(samples: int, longest: int) -> Count:
    """Tokens of a micro batch that has so many samples."""
    return Count(samples * short(longest), samples * longest)


def filled_tokens(limit: int, samples: float, longest: int) -> Count:
    """Tokens of a micro batch that is filled up to `limit` from so many samples; a single one may be longer."""
    return Count(
        max(short(longest), int(min(limit, samples * short(longest)))),
        max(longest, int(min(limit, samples * longest))),
    )


def short(longest: int) -> int:
    """Tokens of a short sample."""
    return max(1, longest // _LONGEST)


def megatron_recompute(read: SettingsReader, section: str, layers: int) -> Recompute:
    """Read Megatron's own recompute options, which its users find in that section."""
    granularity = read.text(f"{section}.recompute_granularity")
    if granularity != "full":
        modules = read.names(f"{section}.recompute_modules") if granularity == "selective" else frozenset()
        return Recompute(full=False, modules=modules)
    count = max(1, read.whole(f"{section}.recompute_num_layers", 1))
    is_block = read.text(f"{section}.recompute_method") == "block"
    return Recompute(block=count) if is_block else Recompute(stride=min(count, layers))


def _split(recipe: Recipe) -> Split:
    layout = recipe.layout
    devices = layout.nodes * layout.devices_per_node
    if layout.pools:
        devices = layout.pools.get("actor", devices)
    if recipe.backend.engine != "megatron":
        return Split(devices, cp=layout.cp)
    # Megatron splits experts as it splits the rest, unless told otherwise.
    return Split(devices, layout.tp, layout.pp, layout.cp, layout.ep, max(1, layout.tp))


@dataclass(frozen=True, slots=True)
class SettingsReader:
    """Settings by their keys, with a default where the back-end says nothing, or something else."""

    settings: Settings

    def whole(self, key: str, default: int) -> int:
        value = self.settings.get(key)
        return value if type(value) is int else default

    def flag(self, key: str, default: bool) -> bool:
        value = self.settings.get(key)
        return value if isinstance(value, bool) else default

    def text(self, key: str) -> str:
        return str(self.settings.get(key))

    def names(self, key: str) -> frozenset[str]:
        value = self.settings.get(key)
        return frozenset(map(str, value)) if isinstance(value, list | tuple) else frozenset()

    def fraction(self, key: str, default: float) -> float:
        value = self.settings.get(key)
        return float(value) if isinstance(value, int | float) and 0 < value <= 1 else default
