"""Adaptive quantisation noise (AQN) on the rollout's own copy of the weights, with a record of what it really did.

Travels to the host as `$RLX_RUN_DIR/payload/rlx_aqn*.py`; needs torch and nothing else. A rollout calls

    injector = Injector.from_run_directory()            # None: no noise, and no watch
    injector.restore()                                  # before a weight sync
    injector.apply(model, rollout_step=s, replica=r, phase="rollout")

after every weight sync, and again with phase "validation" before it validates. The noise is
never added to noise: `apply` too first puts the clean weights back where its own noise still stands.

Each call of `apply` appends one line to `$RLX_ATTEMPT_DIR/events/aqn-<host>-<pid>.jsonl`. The line counts elements that
changed after rounding to the parameter's dtype (in bfloat16 a small sigma changes nothing at all), and has digests of
the weights that take noise: before the sync, clean, and at the end.

In an arm without noise whose recipe has some in another one, sigma is 0 throughout: the same lines are written, and no
weight is ever touched.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rlx_aqn_digest import WeightSnapshot
from rlx_aqn_events import Event, Process, events_file, writer
from rlx_aqn_layers import Choice, Layer, check_effect, check_whole, choices, without_split
from rlx_aqn_noise import Tally, same_bits, stable_seed, standard_noise, times
from rlx_aqn_settings import PRINTED_LAYER_TYPE, InjectionSettings, settings_file
from torch import nn


class Injector:
    """Keeps the clean weights of the layers it disturbed, so that calls never accumulate.

    `tp_size`: over how many ranks the rollout splits its weights. All ranks of a replica get the same noise. `process`:
    where this one is, but for the replica, which `apply` is told. `digest`: of the file that the settings came from.
    """

    def __init__(
        self,
        settings: InjectionSettings,
        events: Path,
        tp_size: int = 1,
        process: Process | None = None,
        digest: str = "",
    ) -> None:
        self.settings = settings
        self._events = writer(events)
        self._tp_size = tp_size
        self._process = process or Process()
        self._digest = digest
        self._is_checked = False
        self._disturbed: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []  # weight, clean, noised
        self._chosen: Sequence[Choice] = ()
        self._found: WeightSnapshot | None = None  # since a sync began: what it found
        self._restored = 0
        self._measured: dict[int, float] = {}
        self._answers = 0

    @classmethod
    def from_run_directory(cls, tp_size: int = 1, shard: int = 0, rank: int = 0) -> Injector | None:
        """Return the injector for payload/aqn.json of this run, or None where there is no such file.

        `shard`: which data-parallel shard of its replica this process is; `rank`: which tensor rank of that.
        """
        settings = settings_file()
        if settings is None:
            return None
        process = Process(shard=shard, rank=rank, node=int(os.environ.get("RLX_NODE") or 0))
        digest = hashlib.sha256(settings.read_bytes()).hexdigest()[:16]
        return cls(InjectionSettings.read(settings), events_file(), tp_size, process, digest)

    @torch.inference_mode()  # weights that an engine made as inference tensors may be written only here
    def apply(
        self, model: nn.Module, rollout_step: int, replica: int = 0, phase: str = "rollout", draw: int = 0
    ) -> Event:
        """Give `model` the noise of a step, starting from clean weights, and record it.

        `rollout_step` is the step that the log reports as `step:N`; for phase "validation" the step being validated
        (0 before training). `draw`: which of several perturbations of that step, from 0. Raises ValueError for another
        phase, and at the first call for an option without effect on this model.
        """
        if phase not in ("rollout", "validation"):
            raise ValueError(f"phase is 'rollout' or 'validation', not {phase!r}")
        synced, before = self._found is not None, self._found or self._standing()
        restored = self._restored + self._put_back()
        self._chosen, self._found, self._restored = self._choices(model), None, 0
        self._process = replace(self._process, replica=replica)
        if not self._is_checked:
            self._check(model)
        clean = self._standing()
        quiet = phase == "validation" and not self.settings.validation_noise
        sigma = 0.0 if quiet else self.settings.sigma(rollout_step, self._measured)
        event = Event(phase, rollout_step, sigma, replica, restored=restored, synced=synced)
        if sigma > 0:
            event = self._disturb(event, draw)
        after = self._standing() if sigma > 0 else clean
        event = replace(event, digest_before=before.digest, digest_clean=clean.digest, digest_after=after.digest)
        self.record("noise", {**asdict(event), **self._followed(event), **self._drawn(draw)})
        return event

    def answered(self, count: int) -> None:
        """Count answers that were generated on the weights as they are now; the next record says how many."""
        self._answers += count

    def measured(self, step: int, value: float) -> None:
        """Keep what was measured of the rollout of `step`, which decides about the sigma of the next one.

        What is no number leaves sigma as it is.
        """
        if math.isfinite(value):
            self._measured[step] = value

    @torch.inference_mode()
    def restore(self, kept: bool = True) -> int:
        """Put the clean weights back, bit by bit; returns how many. A weight that a sync has replaced stays.

        First thing in a sync: it looks at what the weights are until then, and makes sure that a weight which the sync
        writes only in part keeps no noise in the rest. `kept`: False where an engine gave its weights away after it
        generated, so that what stands there now says nothing.
        """
        if self._found is None:
            self._found = self._standing() if kept else WeightSnapshot()
        restored = self._put_back()
        self._restored += restored
        return restored

    def standing_digest(self) -> str:
        """Digest the weights that take noise as they are at this moment."""
        return self._standing().digest

    def record(self, kind: str, content: Mapping[str, object]) -> None:
        """Append a line to the record of this process."""
        self._events.append(kind, self._process, content)

    def _followed(self, event: Event) -> dict[str, object]:
        """Return what sigma followed, where it follows anything: the measurement of the step before, and its target."""
        rule = self.settings.adaptive
        if rule is None or event.phase != "rollout":
            return {}
        return {"measured": self._measured.get(event.step - 1), "target": rule["value"]}

    def _drawn(self, draw: int) -> dict[str, int]:
        """Which draw this is, where a step has several, and how many answers were given since the record before."""
        answers, self._answers = self._answers, 0
        return {} if self.settings.perturbations == 1 else {"draw": draw, "answered": answers}

    def _choices(self, model: nn.Module) -> tuple[Choice, ...]:
        found = choices(model, self.settings)
        leaves_out = self.settings.only_watches and self._tp_size > 1
        return tuple(map(without_split, found) if leaves_out else found)

    def _put_back(self) -> int:
        standing = [(weight, clean) for weight, clean, noised in self._disturbed if same_bits(weight, noised)]
        for weight, clean in standing:
            weight.copy_(clean)
        self._disturbed.clear()
        return len(standing)

    def _standing(self) -> WeightSnapshot:
        return WeightSnapshot(
            weight for choice in self._chosen for layer in choice.layers for weight in layer.weights_now()
        )

    def _check(self, model: nn.Module) -> None:
        """Check that the settings have an effect on this model, and record first which layers they reach."""
        reached = check_effect(model, self.settings)
        check_whole(model, self.settings, self._tp_size)
        options: dict[str, dict[str, int]] = {}
        for option, pattern, count in reached:
            options.setdefault(option, {})[pattern] = count
        layers = [layer for choice in self._chosen for layer in choice.layers]
        told = {
            "tp_size": self._tp_size,
            "reached": options,
            "digest": self._digest,
            "layers": [layer.name for layer in layers],
            "elements": sum(weight.numel() for layer in layers for _, weight in layer.weights),
        }
        self.record("settings", {**asdict(self.settings), **told})
        self._is_checked = True

    def _disturb(self, event: Event, draw: int) -> Event:
        tally = Tally()
        for choice in self._chosen:
            self._disturb_kind(choice, event, draw, tally)
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

    def _disturb_kind(self, choice: Choice, event: Event, draw: int, tally: Tally) -> None:
        for group in _alike(choice.layers).values():
            self._disturb_group(group, event, draw, tally)
        printed = PRINTED_LAYER_TYPE[choice.kind]
        print(
            f"[AQN] Applied noise to {len(choice.layers)} {printed} layers (skipped {choice.skipped} excluded layers)",
            flush=True,
        )

    def _disturb_group(
        self, group: Sequence[tuple[str, Layer, torch.Tensor]], event: Event, draw: int, tally: Tally
    ) -> None:
        """Disturb weights of one shape at once; each still has noise of its own, from its own seed."""
        names, weights = [name for name, _, _ in group], [weight for _, _, weight in group]
        # The first draw is that of a step with one alone.
        which = (draw,) if draw else ()
        seeds = [stable_seed(self.settings.seed, event.replica, event.step, name, *which) for name in names]
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
