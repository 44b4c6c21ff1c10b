"""Breaks what the noise of a rollout is on, and what its record is worth, as engines and plugins with mistakes would.

At all steps the bias of the first layer's queries takes the noise that the final norm should have: as many layers, as
many weights, the same sigma. In three places the weights that serve are not those of the record. For the rollout of
step 2 and in the validation of step 3, both clean, the final norm is noisy. The noise of step 5 is overwritten with
clean weights as soon as it is recorded.

A run loads this in each of its processes by verl's own `actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import rlx_aqn
import torch
from rlx_aqn_layers import Choice, Layer

UNTOLD = {("rollout", 2), ("validation", 3)}
OVERWRITTEN = ("rollout", 5)
QUERIES = "model.layers.0.self_attn.q_proj"

_choices = rlx_aqn.choices
_apply = rlx_aqn.Injector.apply
_untold: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []  # weight, clean, noised


def _other_choices(model: Any, settings: Any) -> Iterator[Choice]:
    queries = model.get_submodule(QUERIES)
    for choice in _choices(model, settings):
        layers = [layer for layer in choice.layers if layer.name != "model.norm"]
        layers.append(Layer(QUERIES, choice.kind, queries, ((f"{QUERIES}.bias", queries.bias),)))
        yield Choice(choice.kind, tuple(layers), choice.skipped)


@torch.inference_mode()
def _apply_and_go_on(self: Any, model: Any, rollout_step: int, replica: int = 0, phase: str = "rollout") -> Any:
    _lift()
    clean = [(weight, weight.clone()) for weight in model.parameters()]
    event = _apply(self, model, rollout_step, replica, phase)
    if (phase, rollout_step) in UNTOLD:
        _disturb(model.model.norm.weight)
    if (phase, rollout_step) == OVERWRITTEN:
        for weight, before in clean:
            weight.copy_(before)
    return event


def _disturb(weight: torch.Tensor) -> None:
    before = weight.clone()
    weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    _untold.append((weight, before, weight.clone()))


def _lift() -> None:
    """Take the untold noise off, but where a sync has brought other weights since."""
    for weight, before, noised in _untold:
        if torch.equal(weight, noised):
            weight.copy_(before)
    _untold.clear()


rlx_aqn.choices = _other_choices
rlx_aqn.Injector.apply = _apply_and_go_on
