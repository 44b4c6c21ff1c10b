"""Estimate the memory a device needs in each phase of a step, from typical to longest: docs/dev/memory-model.md."""

from rlx.planning.memory.activations import Span
from rlx.planning.memory.estimate import Estimate, Phase, estimate, span_text
from rlx.planning.memory.inputs import device_of, estimate_of, job_of
from rlx.planning.memory.job import GIB, Count, Device, Job, Offload, Recompute, Rollout, Split

__all__ = [
    "GIB",
    "Count",
    "Device",
    "Estimate",
    "Job",
    "Offload",
    "Phase",
    "Recompute",
    "Rollout",
    "Span",
    "Split",
    "device_of",
    "estimate",
    "estimate_of",
    "job_of",
    "span_text",
]
