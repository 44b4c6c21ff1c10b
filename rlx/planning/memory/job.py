"""The numbers that the memory of a run depends on, and how to derive them from a recipe; `rlx layouts` varies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from rlx.backends.registry import optional_part
from rlx.planning.models.architectures import Architecture

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Split:
    """The devices that train, and the sizes of the split over them; `etp` splits each expert's matrices."""

    devices: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1

    @property
    def is_whole(self) -> bool:
        """Return whether the sizes divide the devices; a layout rule reports which does not."""
        return self.devices % (self.tp * self.pp * self.cp) == 0 and self.devices % (self.etp * self.ep * self.pp) == 0

    @property
    def data(self) -> int:
        """Data parallel size."""
        return self.devices // (self.tp * self.pp * self.cp)

    @property
    def dense_copies(self) -> int:
        """Devices that hold the same dense parameters and share the optimiser's states."""
        return self.data * self.cp

    @property
    def expert_copies(self) -> int:
        return self.devices // (self.etp * self.ep * self.pp)


@dataclass(frozen=True, slots=True)
class RolloutSetup:
    """The inference engine: `sequence` and `batch` in tokens (`max_model_len`, `max_num_batched_tokens`).

    `sleeps`: weights and KV cache leave the device while the model trains. `colocated`: it uses the training's devices.
    """

    tp: int
    ep: int
    fraction: float
    sequence: int
    batch: int
    sequences: int
    dtype_bytes: int = 2
    sleeps: bool = True
    colocated: bool = True


@dataclass(frozen=True, slots=True)
class Offload:
    """The states that leave the device while they are not needed."""

    weights: bool = False
    gradients: bool = False
    optimizer: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """A number for short samples and for the longest."""

    typical: int
    longest: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """The layers whose activations are computed again in the backward pass (Megatron's recompute options).

    Without `full`, all are kept except those of the `modules` of `selective` recomputation. `stride`: layers between
    two inputs that are kept. `block`: the number of layers that are recomputed; None: all.
    """

    full: bool = True
    stride: int = 1
    block: int | None = None
    modules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MemoryDevice:
    """The memory of a device. `size`: nominal GiB, as npu-smi shows it; `capacity`: GiB that torch can allocate.

    `assumed`: the host was not queried.
    """

    size: float
    capacity: float
    assumed: bool = True


@dataclass(frozen=True, slots=True)
class TrainingSetup:
    """The numbers of one run.

    `update_tokens` and `log_prob_tokens`: tokens of a micro batch before context parallelism splits them;
    `dynamic_batches`: a micro batch is filled up to that number. `shard_bytes`: bytes per parameter of FSDP's shards;
    Megatron always keeps 16-bit weights and 32-bit masters. `gradient_bytes` and `optimizer_bytes`: Megatron's bytes
    per parameter on the device. `fsdp_size`: devices that share one copy of the shards. `lora_targets`: None for all
    linear layers. `entropy_logits`: whether the entropy needs 32-bit copies of the logits, in log-probabilities and in
    an update. `defers_sync`: FSDP keeps whole gradients until the last micro batch; `update_steps`: micro batches of
    an update. `whole_critic`: the critic of the NLA fork, which needs all layers on one stage.
    """

    shape: Architecture
    engine: Literal["fsdp", "fsdp2", "megatron"]
    split: Split
    rollout: RolloutSetup
    device: MemoryDevice
    update_tokens: Count
    log_prob_tokens: Count
    dynamic_batches: bool = False
    shard_bytes: int = 4
    gradient_bytes: int = 4
    optimizer_bytes: float = 12.0
    fsdp_size: int = 1
    recompute: Recompute = Recompute()
    sequence_parallel: bool = True
    distributed_optimizer: bool = True
    fused_logits: bool = False
    entropy_logits: tuple[bool, bool] = (True, False)
    defers_sync: bool = False
    update_steps: Count = Count(1, 1)
    reference: bool = True
    critic: bool = False
    whole_critic: bool = False
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] | None = None
    offload: Offload = Offload()
    reference_offload: bool = False

    @property
    def is_megatron(self) -> bool:
        return self.engine == "megatron"


# "NPU out of memory … 60.97 GiB total capacity" of a 910B with 64 (github.com/vllm-project/vllm-ascend/issues/1987).
NPU = MemoryDevice(64, 60.97)
_NPU_SHARE = NPU.capacity / NPU.size
# vLLM's defaults, where the back-end sets nothing.
_BATCH, _SEQUENCES = 8192, 1024
# The longest sample, as a multiple of a short one. Fitted: see docs/dev/memory-model.md.
_LONGEST = 8
DTYPE_BYTES = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2}


class BackendSettings(Protocol):
    def get(self, key: str) -> object:
        """Return the value that the back-end gets; None: null, unknown, or known at the start only."""


@dataclass(frozen=True, slots=True)
class SettingsReader:
    """Read settings by key, with a default where a value is missing or has another type."""

    settings: BackendSettings

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


def device_of(recipe: Recipe, size: float | None = None) -> MemoryDevice | None:
    """Return the device of `size` GiB, or the usual NPU where the size is unknown. None: not known.

    A CUDA device is available whole; of an NPU the driver keeps about a twentieth.
    """
    is_npu = recipe.layout.device == "npu"
    if size is None:
        return NPU if is_npu else None
    return MemoryDevice(size, size * (_NPU_SHARE if is_npu else 1.0), assumed=False)


def job_of(recipe: Recipe, settings: BackendSettings, shape: Architecture, device: MemoryDevice) -> TrainingSetup:
    """Return the numbers as the back-end's module `memory` reads them. `estimate` needs a split that is whole."""
    written = plain_job(recipe, shape, device)
    own = optional_part(recipe.backend.kind, "memory")
    job: TrainingSetup = own.job(recipe, settings, written) if own else written
    return job


def plain_job(recipe: Recipe, shape: Architecture, device: MemoryDevice) -> TrainingSetup:
    """Return the numbers that follow from the recipe alone."""
    lora, rollout, split = recipe.model.lora, recipe.rollout, _split(recipe)
    longest = recipe.data.max_prompt_tokens + recipe.data.max_response_tokens
    is_megatron = recipe.backend.engine == "megatron"
    return TrainingSetup(
        shape=shape,
        engine=recipe.backend.engine,
        split=split,
        rollout=RolloutSetup(
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
    """Return the tokens of a micro batch with that many samples."""
    return Count(samples * short(longest), samples * longest)


def filled_tokens(limit: int, samples: float, longest: int) -> Count:
    """Return the tokens of a micro batch that is filled up to `limit` from samples; a single one may be longer."""
    return Count(
        max(short(longest), int(min(limit, samples * short(longest)))),
        max(longest, int(min(limit, samples * longest))),
    )


def short(longest: int) -> int:
    """Return the tokens of a short sample."""
    return max(1, longest // _LONGEST)


def megatron_recompute(read: SettingsReader, section: str, layers: int) -> Recompute:
    """Read Megatron's recompute options from a section of the settings."""
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
    # By default Megatron splits experts as it splits the other layers.
    return Split(devices, layout.tp, layout.pp, layout.cp, layout.ep, max(1, layout.tp))
