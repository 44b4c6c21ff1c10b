"""Test the noise code of a checkout on real models: read it without executing it, and run it in a separate process."""

from rlx.audit.checkout import Call, NoiseHook, find_hook
from rlx.audit.class_names import PackageSource, Resolved, engine_classes, matched_classes, sources_in
from rlx.audit.isolation import AuditOutcome, AuditRequest, Fence, HookCall, find_fence, packages_of, run_apart

__all__ = [
    "AuditOutcome",
    "AuditRequest",
    "Call",
    "Fence",
    "HookCall",
    "NoiseHook",
    "PackageSource",
    "Resolved",
    "engine_classes",
    "find_fence",
    "find_hook",
    "matched_classes",
    "packages_of",
    "run_apart",
    "sources_in",
]
