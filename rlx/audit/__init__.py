"""Hold the noise code of somebody's checkout against real models: read it without executing, run it apart from rlx."""

from rlx.audit.checkout import Call, NoiseHook, find_hook
from rlx.audit.class_names import Resolved, Source, engine_classes, matched_classes, sources_in
from rlx.audit.isolation import Fence, Order, find_fence, packages_of, run_apart
from rlx.audit.outcome import HookCall, Outcome

__all__ = [
    "Call",
    "Fence",
    "HookCall",
    "NoiseHook",
    "Order",
    "Outcome",
    "Resolved",
    "Source",
    "engine_classes",
    "find_fence",
    "find_hook",
    "matched_classes",
    "packages_of",
    "run_apart",
    "sources_in",
]
