"""Digests of the weights that take noise: were they touched, and are they the same elsewhere?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch


class WeightSnapshot:
    """What some weights are at this moment, taken without waiting for the device until the digest is asked for.

    Of a vector it holds every byte. Of a matrix, which may be large, it holds the sum of each row, its bytes read as
    whole numbers: one changed element shows for certain, and many changed ones all but for certain.
    """

    @torch.no_grad()
    def __init__(self, weights: Iterable[tuple[str, torch.Tensor]] = ()) -> None:
        named = sorted(weights, key=lambda weight: weight[0])
        self._names = "\n".join(f"{name} {weight.dtype} {list(weight.shape)}" for name, weight in named)
        parts: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
        try:
            for _, weight in named:
                part = weight if weight.dim() == 1 else _row_sums(weight)
                parts.setdefault((part.device, part.dtype), []).append(part)
            self._packed = [torch.cat(own).view(torch.uint8) for own in parts.values()]
        except RuntimeError:  # a device that cannot; no reason to end a run
            self._packed = []

    @property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of names, shapes, dtypes and content; "" without weights."""
        if not self._packed:
            return ""
        found = hashlib.sha256(self._names.encode())
        for part in self._packed:
            found.update(part.cpu().numpy().data)
        return found.hexdigest()[:16]


def _row_sums(weight: torch.Tensor) -> torch.Tensor:
    """One number of 64 bits for each row."""
    rows = weight.reshape(-1, weight.shape[-1] if weight.dim() else 1).contiguous().view(torch.uint8)
    whole = torch.int64 if rows.shape[1] % 8 == 0 else torch.uint8
    return rows.view(whole).sum(-1, dtype=torch.int64)
