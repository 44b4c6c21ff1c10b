"""Record, by digests of a few tensors, that a training moves its weights and that the engine receives them.

Travels to the host as `$RLX_RUN_DIR/payload/rlx_weights.py`, with `rlx_aqn_events.py`; needs torch and nothing else.
The trainer's process calls `Recorder("trained")`, the engine's `Recorder("served")`:

    recorder.updated(rate, norm)     # after each step of the optimizer
    recorder.synced(model, step)     # the trainer: before it sends its weights; the engine: once it has received them

Each process appends to `$RLX_ATTEMPT_DIR/events/weights-<host>-<pid>.jsonl`: first which tensors it digests, then a
line for each sync, of adapters with their sizes. Nothing in here ends a training or changes a weight: what fails is
written down once, and ends the record. At most _TENSORS samples of _ELEMENTS elements are digested, whatever the size
of the model.
RLX_WEIGHT_RECORDS=off switches all of it off.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from rlx_aqn_events import Process, writer

SWITCH = "RLX_WEIGHT_RECORDS"
_TENSORS, _ELEMENTS = 12, 16_384
_EXPERTS = 2
_EXPLAINED: set[Path] = set()
_LAYER = re.compile(r"(?:^|\.)(?:layers|h)\.(\d+)\.")
_NOT_TRAINED = re.compile(r"visual|vision|rotary|inv_freq")
_WRAPPERS = re.compile(
    r"_fsdp_wrapped_module\.|_checkpoint_wrapped_module\.|_orig_mod\.|(?:^|\.)base_model\.model(?=\.)"
)
_LORA = re.compile(r"\.lora_[AB]\.")


def is_on() -> bool:
    """Tell whether this run records its weights."""
    return os.environ.get(SWITCH, "on") != "off" and "RLX_ATTEMPT_DIR" in os.environ


def events_file() -> Path:
    """Where this process of a run writes."""
    return Path(os.environ["RLX_ATTEMPT_DIR"], "events", f"weights-{socket.gethostname()}-{os.getpid()}.jsonl")


def unable(why: str) -> None:
    """Write down, once in a process, that it cannot record its weights, so that its silence is explained."""
    if events_file() not in _EXPLAINED:
        _EXPLAINED.add(events_file())
        _append("unable", Process(), {"why": why[:300]})


def guarded(act: Callable[[], object]) -> None:
    """Do what a training must not depend on."""
    try:
        act()
    except Exception as problem:  # noqa: BLE001 - no record is worth a training
        with contextlib.suppress(OSError):
            unable(f"{type(problem).__name__}: {problem}")


class Recorder:
    """The record of one process: `role` is "trained" or "served". No method raises."""

    def __init__(self, role: str, process: Process | None = None) -> None:
        self._role = role
        self._process = process or Process(node=_number("RLX_NODE"))
        self._names: tuple[str, ...] = ()
        self._syncs = 0
        self._updates = self._moving = 0
        self._rate = self._norm = 0.0
        self._is_over = not is_on()

    def updated(self, rate: float, norm: float) -> None:
        """Count a step of the optimizer: its largest learning rate, and the norm of its gradient."""
        self._updates += 1
        self._rate, self._norm = float(rate), float(norm)
        self._moving += rate > 0 and math.isfinite(norm) and norm > 0

    def synced(self, model: Any, step: int | None = None) -> None:
        """Digest the tensors of a model as they are now. `step`: the step that the trainer has completed."""
        if self._is_over:
            return
        try:
            self._record(model, step)
        except Exception as problem:  # noqa: BLE001 - no record is worth a training
            self._is_over = True
            why = f"{type(problem).__name__}: {problem}"[:300]
            guarded(lambda: self._append("failed", {"why": why}))

    @torch.no_grad()
    def _record(self, model: Any, step: int | None) -> None:
        begun = time.monotonic()
        tensors = dict(model.named_parameters())
        if not self._names:
            self._begin(model, tensors)
        samples = [_sample(tensors[name]) for name in self._names]
        content: dict[str, object] = {"sync": self._syncs, "digests": _digests(samples)}
        if step is not None:
            content["step"] = int(step)
        if self._role == "trained":
            content |= {"updates": self._updates, "moving": self._moving, "lr": self._rate, "grad_norm": self._norm}
            if any(sample.dtype is torch.float32 for sample in samples):
                content["rounded"] = _digests([_to_bfloat16(sample) for sample in samples])
            if any(_LORA.search(name) for name in self._names):
                content["rms"] = _sizes(samples)
            self._updates = self._moving = 0
        self._append("sync", {**content, "seconds": round(time.monotonic() - begun, 6)})
        self._syncs += 1

    def _begin(self, model: Any, tensors: dict[str, torch.Tensor]) -> None:
        usable = {name: tensor for name, tensor in tensors.items() if tensor.numel() and not tensor.is_meta}
        trained = {name: tensor for name, tensor in usable.items() if tensor.requires_grad}
        self._names = tuple(chosen(trained or usable if self._role == "trained" else usable))
        picked = [_local(tensors[name]) for name in self._names]
        self._append(
            "tensors",
            {
                "names": [_WRAPPERS.sub("", name).lstrip(".") for name in self._names],
                "shapes": [list(tensor.shape) for tensor in picked],
                "whole": [list(tensors[name].shape) for name in self._names],
                "dtypes": [str(tensor.dtype).removeprefix("torch.") for tensor in picked],
                "trainable": sum(tensor.numel() for tensor in trained.values()),
                "parameters": sum(tensor.numel() for tensor in tensors.values()),
                "lora_rank": _lora_rank(tensors),
                **({"rms": _sizes([_sample(tensors[name]) for name in self._names])} if self._role == "served" else {}),
            },
        )

    def _append(self, kind: str, content: dict[str, object]) -> None:
        _append(kind, self._process, {"role": self._role, **content})


def _append(kind: str, process: Process, content: dict[str, object]) -> None:
    writer(events_file()).append(kind, process, content)


def _number(variable: str) -> int:
    value = os.environ.get(variable, "")
    return int(value) if value.isdigit() else 0


def chosen(tensors: Iterable[str] | dict[str, torch.Tensor]) -> Iterator[str]:
    """Choose by name: the last layer's tensors, of its experts a few, and the norms after it; or adapters alone."""
    names = [name for name in tensors if not _NOT_TRAINED.search(name)] or list(tensors)
    names = [name for name in names if not name.endswith(".bias")] or names
    names = [name for name in names if _LORA.search(name)] or names
    last = max((int(match[1]) for name in names if (match := _LAYER.search(name))), default=None)
    own = [name for name in names if (match := _LAYER.search(name)) and int(match[1]) == last]
    experts = [name for name in own if ".experts." in name]
    few = [*[name for name in own if name not in experts][: _TENSORS - _EXPERTS - 1], *experts[:_EXPERTS]]
    after = [name for name in names if not _LAYER.search(name) and "norm" in name]
    yield from [*few, *after[-1:]] or names[-_TENSORS:]


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a distributed tensor that this process holds."""
    local = getattr(tensor, "to_local", None)
    found: torch.Tensor = local() if local is not None else tensor
    return found.detach()


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Return a vector of at most _ELEMENTS elements, spread over the tensor; of a small one all."""
    part = _local(tensor)
    for dim in range(part.dim()):
        step = math.ceil(part.numel() / _ELEMENTS)
        if step <= 1:
            break
        part = part[(slice(None),) * dim + (slice(None, None, min(step, part.shape[dim])),)]
    return part.reshape(-1)


def _to_bfloat16(sample: torch.Tensor) -> torch.Tensor:
    return sample.to(torch.bfloat16) if sample.dtype is torch.float32 else sample


def _sizes(samples: list[torch.Tensor]) -> list[float]:
    """Return the root mean square of each sample, 0 of a quantised one. Of adapters it shows their effect."""
    usual = (torch.float32, torch.bfloat16, torch.float16)
    sizes = [float(sample.float().square().mean().sqrt()) if sample.dtype in usual else 0.0 for sample in samples]
    return [float(f"{size:.4g}") for size in sizes]


def _digests(samples: list[torch.Tensor]) -> list[str]:
    """Return the first 16 hexadecimal digits of each SHA-256; samples of one dtype leave their device together."""
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for place, sample in enumerate(samples):
        groups.setdefault((sample.device, sample.dtype), []).append(place)
    found = [""] * len(samples)
    for (_, dtype), places in groups.items():
        content = torch.cat([samples[place] for place in places]).cpu().view(torch.uint8).numpy().data
        begin = 0
        for place in places:
            end = begin + samples[place].numel() * dtype.itemsize
            found[place] = hashlib.sha256(content[begin:end]).hexdigest()[:16]
            begin = end
    return found


def _lora_rank(tensors: dict[str, torch.Tensor]) -> int | None:
    return next(
        (min(tensor.shape) for name, tensor in tensors.items() if _LORA.search(name) and tensor.dim() == 2), None
    )
