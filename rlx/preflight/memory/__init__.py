"""Estimate the memory a device needs in each phase of a step, with its margin: docs/memory.md."""

from rlx.preflight.memory.estimate import Estimate, Phase, estimate
from rlx.preflight.memory.inputs import device_of, estimate_of, job_of
from rlx.preflight.memory.job import GIB, Device, Job, Offload, Rollout, Split

__all__ = [
    "GIB",
    "Device",
    "Estimate",
    "Job",
    "Offload",
    "Phase",
    "Rollout",
    "Split",
    "device_of",
    "estimate",
    "estimate_of",
    "job_of",
]
