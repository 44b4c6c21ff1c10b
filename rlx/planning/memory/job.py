"""The numbers that the memory of a run depends on. No recipe here: `rlx layouts` varies these directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rlx.planning.models.architectures import Architecture

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Split:
    """Devices that train, and how the model is split over them; `etp` splits each expert's matrices."""

    devices: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1

    @property
    def is_whole(self) -> bool:
        """Tell whether the sizes divide the devices; a layout rule says which does not."""
        return self.devices % (self.tp * self.pp * self.cp) == 0 and self.devices % (self.etp * self.ep * self.pp) == 0

    @property
    def data(self) -> int:
        """Data parallel size."""
        return self.devices // (self.tp * self.pp * self.cp)

    @property
    def dense_copies(self) -> int:
        """Devices that hold the same dense parameters, over which the optimiser's states are spread."""
        return self.data * self.cp

    @property
    def expert_copies(self) -> int:
        return self.devices // (self.etp * self.ep * self.pp)


@dataclass(frozen=True, slots=True)
class Rollout:
    """The inference engine: `sequence` and `batch` in tokens (`max_model_len`, `max_num_batched_tokens`).

    `sleeps`: weights and KV cache leave the device while the model trains. `colocated`: on the training's devices.
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
    """A number with short samples, and with the longest."""

    typical: int
    longest: int


@dataclass(frozen=True, slots=True)
class Recompute:
    """The layers whose activations are computed again in the backward pass (Megatron's recompute options).

    Without `full` all are kept, but for the `modules` that `selective` recomputation leaves out. `stride`: layers
    between two inputs that are kept. `block`: only that many layers are recomputed; None: all.
    """

    full: bool = True
    stride: int = 1
    block: int | None = None
    modules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Device:
    """`size`: GiB as it is sold and as npu-smi shows it; `capacity`: GiB that torch can have of it.

    `assumed`: nobody asked the host.
    """

    size: float
    capacity: float
    assumed: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """One run. `update_tokens` and `log_prob_tokens`: tokens of a micro batch, before
    context parallelism splits them; `dynamic_batches`: filled up to so many.

    `shard_bytes`: bytes a parameter of FSDP's shards; Megatron keeps 16-bit weights and 32-bit masters whatever it
    says. `gradient_bytes` and `optimizer_bytes`: Megatron's on the device, a parameter. `fsdp_size`: devices that share
    one copy of the shards. `lora_targets`: None for all linear layers. `entropy_logits`: 32-bit copies of the logits
    that the entropy takes, in log-probabilities and in an update. `defers_sync`: FSDP keeps whole gradients until the
    last micro batch; `update_steps`: micro batches of an update. `whole_critic`: the critic of the NLA fork, which has
    to see all layers.
    """

    shape: Architecture
    engine: Literal["fsdp", "fsdp2", "megatron"]
    split: Split
    rollout: Rollout
    device: Device
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
