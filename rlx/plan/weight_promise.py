"""Describe the records of its weights that a plan expects of a run (rlx/payload/rlx_weights.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightPromise:
    """`trainers` and `engines`: how many processes record; 0: not known.

    `syncs_each_step`: the weights are sent once before the training and once after each of its steps.
    """

    trainers: int
    engines: int
    syncs_each_step: bool = True
