"""Adaptive quantisation noise (AQN) on the rollout's own copy of the weights, with a record of what it really did.

Travels to the host as `$RLX_RUN_DIR/payload/rlx_aqn.py`; needs torch and nothing else. A rollout calls

    injector = Injector.from_run_directory()            # None: this run carries no noise
    injector.apply(model, rollout_step=s, replica=r, phase="rollout")

after every weight sync, and again with phase "validation" before it validates. The noise is
never added to noise: `apply` first puts the clean weights back where its own noise still stands.

Each call appends one line to `$RLX_ATTEMPT_DIR/events/aqn-<host>-<pid>.jsonl`. The line counts elements that changed
after rounding to the parameter's dtype: in bfloat16 a small sigma changes nothing at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import nn

# Not "gate": every SwiGLU model has a gate_proj, and a dense one would pass for a mixture of experts.
MOE_MARKS = ("experts", "shared_expert", "num_experts", "expert_")
ROUTER_NAMES = ("gate", "router", "shared_expert_gate")
PRINTED_LAYER_TYPE = {"rmsnorm": "RMSNorm", "linear": "linear"}


@dataclass(frozen=True)
class Settings:
    """The content of aqn.json. Sigmas are standard deviations in units of the weights; steps count from 1.

    `targets` and `exclude` are substrings of module names. "auto" means every RMSNorm of a dense model and the
    post-attention RMSNorms of a mixture of experts.
    """

    sigma_start: float
    sigma_end: float
    stages: int
    total_steps: int
    layer_types: tuple[str, ...] = ("rmsnorm",)
    targets: str | tuple[str, ...] = "auto"
    exclude: tuple[str, ...] = ()
    seed: int = 0
    validation_noise: bool = False

    def __post_init__(self) -> None:
        if self.stages < 3:
            raise ValueError(f"AQN needs at least 3 stages, got {self.stages}")
        if unknown := set(self.layer_types) - PRINTED_LAYER_TYPE.keys():
            raise ValueError(f"AQN knows the layer types {sorted(PRINTED_LAYER_TYPE)}, not {sorted(unknown)}")

    @classmethod
    def read(cls, path: Path) -> Settings:
        document = json.loads(path.read_text(encoding="utf-8"))
        lists = {key: tuple(value) for key, value in document.items() if isinstance(value, list)}
        return cls(**{**document, **lists})

    def sigma(self, step: int) -> float:
        """Sigma for the rollout of `step`: geometric in stages, the first stage free of noise (QeRL's schedule).

        Source: NVlabs/QeRL trl_trainer/noise_scheduler.py. Steps outside 1 … total_steps carry none: the weights
        synced after the last step are used by nobody.
        """
        stage = (step - 1) * self.stages // self.total_steps
        if not 1 <= step <= self.total_steps or stage == 0:
            return 0.0
        ratio = self.sigma_end / self.sigma_start
        return self.sigma_start * ratio ** ((stage - 1) / (self.stages - 2))


@dataclass(frozen=True)
class Event:
    """What one call did. `effective_std` is the root mean square of what the weights really moved by."""

    phase: str
    step: int
    sigma: float
    replica: int
    layers: int = 0
    skipped: int = 0
    elements: int = 0
    changed: int = 0
    effective_std: float = 0.0


@dataclass(frozen=True)
class Layer:
    """A module that can take noise: its name in the model and the parameters that are its weights."""

    name: str
    kind: str
    weights: tuple[tuple[str, torch.Tensor], ...]


class Injector:
    """Keeps the clean weights of the layers it disturbed, so that calls never accumulate."""

    def __init__(self, settings: Settings, events: Path) -> None:
        self.settings = settings
        self._events = events
        self._disturbed: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []  # weight, clean, noised

    @classmethod
    def from_run_directory(cls) -> Injector | None:
        """The injector that payload/aqn.json of this run asks for, or None where there is no such file."""
        run_dir = os.environ.get("RLX_RUN_DIR")
        settings = Path(run_dir, "payload", "aqn.json") if run_dir else None
        if settings is None or not settings.exists():
            return None
        name = f"aqn-{socket.gethostname()}-{os.getpid()}.jsonl"
        return cls(Settings.read(settings), Path(os.environ["RLX_ATTEMPT_DIR"], "events", name))

    @torch.no_grad()
    def apply(self, model: nn.Module, rollout_step: int, replica: int = 0, phase: str = "rollout") -> Event:
        """Give `model` the noise of a step, starting from clean weights, and record it.

        `rollout_step` is the step that the log reports as `step:N`; for phase "validation" the step being validated
        (0 before training). Raises ValueError for another phase.
        """
        if phase not in ("rollout", "validation"):
            raise ValueError(f"phase is 'rollout' or 'validation', not {phase!r}")
        self._restore()
        quiet = phase == "validation" and not self.settings.validation_noise
        event = Event(phase, rollout_step, 0.0 if quiet else self.settings.sigma(rollout_step), replica)
        if event.sigma > 0:
            event = self._disturb(model, event)
        self._record(event)
        return event

    def _restore(self) -> None:
        """Put clean weights back, except where a sync already did: a LoRA sync leaves the base weights alone."""
        for weight, clean, noised in self._disturbed:
            if torch.equal(weight, noised):
                weight.copy_(clean)
        self._disturbed.clear()

    def _disturb(self, model: nn.Module, event: Event) -> Event:
        moved = 0.0
        for kind in self.settings.layer_types:
            chosen, skipped = choose(model, kind, self.settings.targets, self.settings.exclude)
            for name, weight in (pair for layer in chosen for pair in layer.weights):
                change = self._add_noise(name, weight, event)
                changed, moved = event.changed + int(change.count_nonzero()), moved + float(change.square().sum())
                event = replace(event, elements=event.elements + change.numel(), changed=changed)
            event = replace(event, layers=event.layers + len(chosen), skipped=event.skipped + skipped)
            printed = PRINTED_LAYER_TYPE[kind]
            print(
                f"[AQN] Applied noise to {len(chosen)} {printed} layers (skipped {skipped} excluded layers)", flush=True
            )
        return replace(event, effective_std=(moved / event.elements) ** 0.5 if event.elements else 0.0)

    def _add_noise(self, name: str, weight: torch.Tensor, event: Event) -> torch.Tensor:
        """Disturb one weight; returns by how much each element moved, in double precision."""
        seed = stable_seed(self.settings.seed, event.replica, event.step, name)
        noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
        clean = weight.detach().clone()
        noised = clean + (noise * event.sigma).to(device=weight.device, dtype=weight.dtype)
        weight.copy_(noised)
        self._disturbed.append((weight, clean, noised))
        return noised.double() - clean.double()

    def _record(self, event: Event) -> None:
        self._events.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"kind": "noise", **asdict(event), "time": time.time()}) + "\n"
        # One write to a file opened for appending: a reader never sees half of a line of ours. The umask decides who
        # may read it: root in a container writes for a user of the host.
        descriptor = os.open(self._events, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def stable_seed(*parts: int | str) -> int:
    """A seed that depends on the parts alone; Python's own hash() differs from process to process."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:8], "big") >> 1


def is_mixture_of_experts(model: nn.Module) -> bool:
    return any(mark in name for name, _ in model.named_modules() for mark in MOE_MARKS)


def choose(
    model: nn.Module, kind: str, targets: str | tuple[str, ...], exclude: tuple[str, ...]
) -> tuple[list[Layer], int]:
    """The layers of a kind that get noise, and how many others of that kind were left out."""
    moe = is_mixture_of_experts(model)
    layers = list(_layers(model, kind))
    chosen = [layer for layer in layers if _is_target(layer, moe, targets) and not _contains(layer.name, exclude)]
    return chosen, len(layers) - len(chosen)


def _is_target(layer: Layer, moe: bool, targets: str | tuple[str, ...]) -> bool:
    if layer.kind == "linear" and (_is_router(layer.name) or not _is_hidden_layer(layer.name, targets)):
        return False
    if targets != "auto":
        return _contains(layer.name, targets)
    return layer.kind != "rmsnorm" or not moe or "post_attention_layernorm" in layer.name


def _is_router(name: str) -> bool:
    return name.rpartition(".")[2] in ROUTER_NAMES


def _is_hidden_layer(name: str, targets: str | tuple[str, ...]) -> bool:
    """Not the output head, which is often tied to the embeddings: only a pattern that names it may touch it."""
    return "lm_head" not in name or (targets != "auto" and any("lm_head" in pattern for pattern in targets))


def _contains(name: str, patterns: str | tuple[str, ...]) -> bool:
    return any(pattern in name for pattern in patterns)


def _layers(model: nn.Module, kind: str) -> Iterator[Layer]:
    for name, module in model.named_modules():
        # By class name: inference engines have their own classes, and isinstance on transformers' finds none of them.
        weights = _norm_weight(module) if kind == "rmsnorm" else _linear_weights(module)
        if weights:
            yield Layer(name, kind, tuple((f"{name}.{key}", weight) for key, weight in weights))


def _norm_weight(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    weight = getattr(module, "weight", None)
    if "rmsnorm" not in type(module).__name__.lower() or not isinstance(weight, torch.Tensor):
        return []
    return [("weight", weight)]


def _linear_weights(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """`weight` of linear layers; of fused experts the stacked matrices. Quantised (integer) weights take no noise."""
    kind = type(module).__name__.lower()
    own = [(key, weight) for key, weight in module.named_parameters(recurse=False) if weight.is_floating_point()]
    if "linear" in kind:
        return [(key, weight) for key, weight in own if key == "weight"]
    if "experts" in kind or "fusedmoe" in kind:
        return [(key, weight) for key, weight in own if weight.dim() == 3]
    return []
