"""The batches of its data that a trainer generates for one step: DAPO goes on until enough groups differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchesAStep:
    """From `least` to `most`, both included; `most` is None where the trainer has no limit."""

    least: int = 1
    most: int | None = None

    def __contains__(self, batches: float) -> bool:
        return self.least <= batches and (self.most is None or batches <= self.most)

    def __str__(self) -> str:
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"
