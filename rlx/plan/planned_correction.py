"""The correction of off-policy samples that a plan promises: what training does where rollout and actor differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Correction:
    """`weights`, `rejection`: the kind and its threshold, as `token 2.0`; empty where there is none.

    `bypass`: the rollout's probabilities stand in for those of the actor before the update. Two runs with equal
    values treat equal samples alike.
    """

    weights: str = ""
    rejection: str = ""
    bypass: bool = False

    def __str__(self) -> str:
        parts = (
            self.weights and f"importance weights by {self.weights}",
            self.rejection and f"rejection {self.rejection}",
            "bypass" if self.bypass else "",
        )
        return ", ".join(filter(None, parts))
