"""Choose the layers of a model that take noise, and check that every option of a recipe reaches some of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from rlx_aqn_settings import InjectionSettings, refusal
from torch import nn

# Not "gate": every SwiGLU model has a gate_proj, and a dense one would pass for a mixture of experts.
MOE_MARKS = ("experts", "shared_expert", "num_experts", "expert_")
ROUTER_NAMES = ("gate", "router", "shared_expert_gate")


@dataclass(frozen=True)
class Layer:
    """A module that can take noise: its name in the model and the parameters that are its weights."""

    name: str
    kind: str
    module: nn.Module
    weights: tuple[tuple[str, torch.Tensor], ...]
    is_split_norm: bool = False  # vLLM's MiniMaxText01RMSNormTP: each rank has the weights of its own heads

    @property
    def is_split(self) -> bool:
        """Whether each rank of a tensor-parallel group holds a part of it."""
        return self.kind == "linear" or self.is_split_norm

    def weights_now(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Its weights as the module has them now: an engine may have put others in the place of `weights`."""
        return ((name, getattr(self.module, name.rpartition(".")[2])) for name, _ in self.weights)


@dataclass(frozen=True)
class Choice:
    """The layers of one kind that take noise, and how many others of that kind were left out."""

    kind: str
    layers: tuple[Layer, ...]
    skipped: int


def choose(
    model: nn.Module, kind: str, targets: str | tuple[str, ...], exclude: tuple[str, ...]
) -> tuple[list[Layer], int]:
    """Choose the layers of a kind that get noise, and count the excluded ones of that kind."""
    moe = targets == "auto" and is_mixture_of_experts(model)
    layers = list(_layers(model, kind))
    chosen = [layer for layer in layers if _is_target(layer, moe, targets) and not _contains(layer.name, exclude)]
    return chosen, len(layers) - len(chosen)


def choices(model: nn.Module, settings: InjectionSettings) -> Iterator[Choice]:
    """Return what the settings choose, kind by kind."""
    for kind in settings.layer_types:
        layers, skipped = choose(model, kind, settings.targets, settings.exclude)
        yield Choice(kind, tuple(layers), skipped)


def without_split(choice: Choice) -> Choice:
    """Those of its layers that all ranks of a tensor-parallel group hold whole, and so equal."""
    return replace(choice, layers=tuple(layer for layer in choice.layers if not layer.is_split))


def check_effect(model: nn.Module, settings: InjectionSettings) -> list[tuple[str, str, int]]:
    """(option, its value, how many layers it decides about) for each pattern and layer type that is set.

    Raises ValueError for one that decides about none: a recipe would say one thing and do another. Of an arm without
    noise nothing is done anyhow.
    """
    reached = list(_reached(model, settings))
    for option, pattern, count in reached:
        if not count and not settings.only_watches:
            raise _without_effect(option, pattern, model, settings)
    return reached


def check_whole(model: nn.Module, settings: InjectionSettings, tp_size: int) -> None:
    """Refuse a rank of a tensor-parallel group that holds only a part of a weight that takes noise, with ValueError.

    Norm weights are whole on each rank, and equal names give them equal noise. Of a split weight each rank would draw
    the noise of a smaller matrix: no noise of the full weight is made of that.
    """
    if tp_size == 1 or settings.only_watches:
        return
    for choice in choices(model, settings):
        split = [layer.name for layer in choice.layers if layer.is_split]
        if split:
            raise refusal(
                "RLX642",
                f"aqn: the rollout splits {split[0]} over {tp_size} ranks, and only whole weights take noise",
                f"rollout.tp: 1, or aqn without {choice.kind} layers",
            )


def _reached(model: nn.Module, settings: InjectionSettings) -> Iterator[tuple[str, str, int]]:
    found = list(choices(model, settings))
    chosen = [layer.name for choice in found for layer in choice.layers]
    targets = () if settings.targets == "auto" else settings.targets
    for pattern in targets:
        yield "targets", pattern, sum(pattern in name for name in chosen)
    for pattern in settings.exclude:
        yield "exclude", pattern, sum(pattern in name for name in _targeted(model, settings))
    # After the patterns: one that matches nothing leaves no layer of any kind.
    for choice in found:
        yield "layer_types", choice.kind, len(choice.layers)
    for pattern in settings.multipliers:
        yield "multipliers", pattern, sum(pattern in name for name in chosen)


def _targeted(model: nn.Module, settings: InjectionSettings) -> list[str]:
    """Names of the layers that would take noise if nothing was excluded."""
    return [layer.name for kind in settings.layer_types for layer in choose(model, kind, settings.targets, ())[0]]


def _without_effect(option: str, pattern: str, model: nn.Module, settings: InjectionSettings) -> ValueError:
    if option == "layer_types" and any(_layers(model, pattern)) and settings.exclude:
        what = f"aqn.exclude: {', '.join(settings.exclude)} leaves no {pattern} layer that could take noise"
        return refusal("RLX640", what, f"exclude less in aqn.exclude, or remove {pattern} from aqn.layer_types")
    names = [layer.name for kind in settings.layer_types for layer in _layers(model, kind)]
    some = f"its layers are {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else "it has no such layer"
    what = f"aqn.{option}: {pattern} reaches no layer of this model that takes noise; {some}"
    return refusal("RLX640", what, f"correct aqn.{option} in the recipe, or remove {pattern} from it")


def is_mixture_of_experts(model: nn.Module) -> bool:
    names = "\n".join(name for name, _ in model.named_modules())  # searched as one: this is done at every sync
    return any(mark in names for mark in MOE_MARKS)


def _is_target(layer: Layer, moe: bool, targets: str | tuple[str, ...]) -> bool:
    if layer.kind == "linear" and not _may_take_noise(layer.name, targets):
        return False
    if targets != "auto":
        return _contains(layer.name, targets)
    return layer.kind != "rmsnorm" or not moe or "post_attention_layernorm" in layer.name


def _may_take_noise(name: str, targets: str | tuple[str, ...]) -> bool:
    """Noise on a router changes which experts answer, and adapters are what is trained."""
    return not _is_router(name) and ".lora_" not in name and _is_hidden_layer(name, targets)


def _is_router(name: str) -> bool:
    """Below its name, too: adapters wrap a layer as `gate.base_layer`."""
    return any(part in ROUTER_NAMES for part in name.split("."))


def _is_hidden_layer(name: str, targets: str | tuple[str, ...]) -> bool:
    """Not the output head, which is often tied to the embeddings: only a pattern that names it may touch it."""
    return "lm_head" not in name or (targets != "auto" and any("lm_head" in pattern for pattern in targets))


def _contains(name: str, patterns: str | tuple[str, ...]) -> bool:
    return any(pattern in name for pattern in patterns)


def _layers(model: nn.Module, kind: str) -> Iterator[Layer]:
    seen: set[int] = set()  # a weight that two modules share takes noise once
    for name, module in model.named_modules():
        # By class name: inference engines have their own classes, and isinstance on transformers' finds none of them.
        weights = _norm_weight(module) if kind == "rmsnorm" else _linear_weights(module)
        if not weights:
            continue
        own = tuple((f"{name}.{key}", weight) for key, weight in weights if id(weight) not in seen)
        seen.update(id(weight) for _, weight in own)
        if own:
            yield Layer(name, kind, module, own, "rmsnormtp" in type(module).__name__.lower())


def _norm_weight(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    if "rmsnorm" not in type(module).__name__.lower():
        return []
    weight = getattr(module, "weight", None)
    return [("weight", weight)] if isinstance(weight, torch.Tensor) else []


def _linear_weights(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """`weight` of linear layers; of fused experts the stacked matrices. Quantised weights take no noise."""
    kind = type(module).__name__.lower()
    # Eight bits or fewer are codes of a quantisation, floating-point ones included: noise belongs to their scales.
    own = [(key, w) for key, w in module.named_parameters(recurse=False) if w.is_floating_point() and w.itemsize > 1]
    if "linear" in kind:
        return [(key, weight) for key, weight in own if key == "weight"]
    if "experts" in kind or "fusedmoe" in kind:
        return [(key, weight) for key, weight in own if weight.dim() == 3]
    return []
