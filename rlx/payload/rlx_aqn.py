"""Adaptive quantisation noise (AQN) on the rollout's own copy of the weights, with a record of what it really did.

Travels to the host as `$RLX_RUN_DIR/payload/rlx_aqn*.py`; needs torch and nothing else. A rollout calls

    injector = Injector.from_run_directory()            # None: this run carries no noise
    injector.restore()                                  # before a weight sync
    injector.apply(model, rollout_step=s, replica=r, phase="rollout")

after every weight sync, and again with phase "validation" before it validates. The noise is
never added to noise: `apply` too first puts the clean weights back where its own noise still stands.

Each call appends one line to `$RLX_ATTEMPT_DIR/events/aqn-<host>-<pid>.jsonl`. The line counts elements that changed
after rounding to the parameter's dtype: in bfloat16 a small sigma changes nothing at all.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rlx_aqn_events import Event, append
from rlx_aqn_layers import Choice, Layer, check_effect, check_whole, choices
from rlx_aqn_noise import Tally, same_bits, stable_seed, standard_noise, times
from rlx_aqn_settings import PRINTED_LAYER_TYPE, Settings
from torch import nn


class Injector:
    """Keeps the clean weights of the layers it disturbed, so that calls never accumulate.

    `tp_size`: over how many ranks the rollout splits its weights. All ranks of a replica get the same noise.
    """

    def __init__(self, settings: Settings, events: Path, tp_size: int = 1) -> None:
        self.settings = settings
        self._events = events
        self._tp_size = tp_size
        self._is_checked = False
        self._disturbed: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []  # weight, clean, noised

    @classmethod
    def from_run_directory(cls, tp_size: int = 1) -> Injector | None:
        """The injector that payload/aqn.json of this run asks for, or None where there is no such file."""
        run_dir = os.environ.get("RLX_RUN_DIR")
        settings = Path(run_dir, "payload", "aqn.json") if run_dir else None
        if settings is None or not settings.exists():
            return None
        name = f"aqn-{socket.gethostname()}-{os.getpid()}.jsonl"
        return cls(Settings.read(settings), Path(os.environ["RLX_ATTEMPT_DIR"], "events", name), tp_size)

    @torch.inference_mode()  # weights that an engine made as inference tensors may be written only here
    def apply(self, model: nn.Module, rollout_step: int, replica: int = 0, phase: str = "rollout") -> Event:
        """Give `model` the noise of a step, starting from clean weights, and record it.

        `rollout_step` is the step that the log reports as `step:N`; for phase "validation" the step being validated
        (0 before training). Raises ValueError for another phase, and at the first call for an option without effect
        on this model.
        """
        if phase not in ("rollout", "validation"):
            raise ValueError(f"phase is 'rollout' or 'validation', not {phase!r}")
        restored = self.restore()
        if not self._is_checked:
            self._check(model)
        quiet = phase == "validation" and not self.settings.validation_noise
        sigma = 0.0 if quiet else self.settings.sigma(rollout_step)
        event = Event(phase, rollout_step, sigma, replica, restored=restored)
        if sigma > 0:
            event = self._disturb(model, event)
        append(self._events, "noise", asdict(event))
        return event

    @torch.inference_mode()
    def restore(self) -> int:
        """Put the clean weights back, bit by bit; returns how many. A weight that a sync has replaced stays.

        Before a sync it makes sure that a weight which the sync writes only in part keeps no noise in the rest.
        """
        standing = [(weight, clean) for weight, clean, noised in self._disturbed if same_bits(weight, noised)]
        for weight, clean in standing:
            weight.copy_(clean)
        self._disturbed.clear()
        return len(standing)

    def _check(self, model: nn.Module) -> None:
        """What is set must have an effect on this model; what it reaches becomes the first record."""
        reached = check_effect(model, self.settings)
        check_whole(model, self.settings, self._tp_size)
        options: dict[str, dict[str, int]] = {}
        for option, pattern, count in reached:
            options.setdefault(option, {})[pattern] = count
        append(self._events, "settings", {**asdict(self.settings), "tp_size": self._tp_size, "reached": options})
        self._is_checked = True

    def _disturb(self, model: nn.Module, event: Event) -> Event:
        tally = Tally()
        for choice in choices(model, self.settings):
            self._disturb_kind(choice, event, tally)
            event = replace(event, layers=event.layers + len(choice.layers), skipped=event.skipped + choice.skipped)
        return replace(
            event,
            elements=tally.elements,
            changed=tally.changed,
            effective_std=tally.effective_std,
            asked_std=tally.asked_std,
            dtypes=tuple(tally.dtypes),
            fingerprint=tally.fingerprint,
        )

    def _disturb_kind(self, choice: Choice, event: Event, tally: Tally) -> None:
        for group in _alike(choice.layers).values():
            self._disturb_group(group, event, tally)
        printed = PRINTED_LAYER_TYPE[choice.kind]
        print(
            f"[AQN] Applied noise to {len(choice.layers)} {printed} layers (skipped {choice.skipped} excluded layers)",
            flush=True,
        )

    def _disturb_group(self, group: Sequence[tuple[str, Layer, torch.Tensor]], event: Event, tally: Tally) -> None:
        """Disturb weights of one shape at once; each still has noise of its own, from its own seed."""
        names, weights = [name for name, _, _ in group], [weight for _, _, weight in group]
        seeds = [stable_seed(self.settings.seed, event.replica, event.step, name) for name in names]
        sigmas = [event.sigma * self.settings.multiplier(layer.name) for _, layer, _ in group]
        noise = torch.stack([standard_noise(weights[0].shape, seed) for seed in seeds])
        clean = torch.stack([weight.detach() for weight in weights])
        noised = clean + times(noise, sigmas).to(device=clean.device, dtype=clean.dtype)
        for weight, before, after in zip(weights, clean, noised, strict=True):
            weight.copy_(after)
            self._disturbed.append((weight, before, after))
        tally.add(names, clean, noised, noise, sigmas)


def _alike(layers: Sequence[Layer]) -> dict[object, list[tuple[str, Layer, torch.Tensor]]]:
    """Vectors by what must be equal to stack them: many small steps cost more than one. A matrix stays by itself."""
    groups: dict[object, list[tuple[str, Layer, torch.Tensor]]] = {}
    for layer in layers:
        for name, weight in layer.weights:
            key = (weight.shape, weight.dtype, weight.device) if weight.dim() == 1 else name
            groups.setdefault(key, []).append((name, layer, weight))
    return groups
