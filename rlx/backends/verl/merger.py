"""Write the arguments of verl's own converter of checkpoints.

Source: model_merger/base_model_merger.py of verl 0.9.1; the same options in 0.6.1.
"""

from __future__ import annotations

from rlx.backends.verl.overrides import VerlRendering

PROGRAM = "verl.model_merger"
"""The module that converts a checkpoint where a recipe names no converter of its own."""


def merge_arguments(rendering: VerlRendering) -> tuple[str, ...]:
    """Write arguments for `python -m verl.model_merger merge`, without the folders. FSDP and FSDP2 save alike."""
    return ("--backend", "megatron" if rendering.is_megatron else "fsdp")
