"""Estimate the memory that a device needs in each phase of a step: docs/dev/memory-model.md."""

from rlx.planning.memory.activations import MemoryRange
from rlx.planning.memory.estimate import MemoryEstimate, MemoryPhase, estimate, estimate_of, span_text
from rlx.planning.memory.job import (
    GIB,
    Count,
    MemoryDevice,
    Offload,
    Recompute,
    RolloutSetup,
    Split,
    TrainingSetup,
    device_of,
    job_of,
)

__all__ = [
    "GIB",
    "Count",
    "MemoryDevice",
    "MemoryEstimate",
    "MemoryPhase",
    "MemoryRange",
    "Offload",
    "Recompute",
    "RolloutSetup",
    "Split",
    "TrainingSetup",
    "device_of",
    "estimate",
    "estimate_of",
    "job_of",
    "span_text",
]
