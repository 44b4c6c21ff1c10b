"""The noise itself: the same for a weight's name wherever, whenever and in whichever order it is drawn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import torch

# Of each weight's noise so much goes into the fingerprint: enough to tell two noises apart, and cheap for a matrix.
_FINGERPRINTED = 1024


def stable_seed(*parts: int | str) -> int:
    """Derive a seed from the parts alone; Python's own hash() differs from process to process."""
    return int.from_bytes(hashlib.sha256(json.dumps(parts).encode()).digest()[:8], "big") >> 1


def standard_noise(shape: torch.Size, seed: int) -> torch.Tensor:
    """Draw standard normal float32 noise on the CPU, so that it depends on no device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def times(noise: torch.Tensor, sigmas: Sequence[float]) -> torch.Tensor:
    """Noise of shape (n, …), each of the n times its own sigma."""
    return noise * torch.tensor(sigmas, dtype=noise.dtype).view(-1, *[1] * (noise.dim() - 1))


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal bit by bit; NaN equals itself, and 0 is not -0."""
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


class Tally:
    """What noise did to weights after rounding, summed without waiting for a device until the end."""

    def __init__(self) -> None:
        self.elements = 0
        self._asked = 0.0
        self._changed: list[torch.Tensor] = []
        self._moved: list[torch.Tensor] = []
        self._prints: list[str] = []
        self._dtypes: set[str] = set()

    def add(
        self,
        names: Sequence[str],
        clean: torch.Tensor,
        noised: torch.Tensor,
        noise: torch.Tensor,
        sigmas: Sequence[float],
    ) -> None:
        """Of n weights, each tensor being (n, …): standard `noise` times `sigmas` turned `clean` into `noised`."""
        self.elements += clean.numel()
        self._asked += clean[0].numel() * sum(sigma**2 for sigma in sigmas)
        self._changed.append((noised != clean).count_nonzero())
        self._moved.append((noised.float() - clean.float()).square().sum())
        heads = noise.flatten(1)[:, :_FINGERPRINTED].numpy()
        hashes = (hashlib.sha256(head.tobytes()).hexdigest() for head in heads)
        self._prints += (f"{name} {value}" for name, value in zip(names, hashes, strict=True))
        self._dtypes.add(str(clean.dtype).removeprefix("torch."))

    @property
    def changed(self) -> int:
        return sum(int(count) for count in self._changed)

    @property
    def effective_std(self) -> float:
        """Root mean square of what the elements moved by; 0.0 without elements."""
        moved = sum(float(part) for part in self._moved)
        return (moved / self.elements) ** 0.5 if self.elements else 0.0

    @property
    def asked_std(self) -> float:
        """Root mean square of the sigmas, multipliers included: what would have arrived without rounding."""
        return (self._asked / self.elements) ** 0.5 if self.elements else 0.0

    @property
    def fingerprint(self) -> str:
        """Equal for equal noise on equally named weights, in whichever order."""
        return hashlib.sha256("\n".join(sorted(self._prints)).encode()).hexdigest()[:16]

    @property
    def dtypes(self) -> list[str]:
        return sorted(self._dtypes)
