"""The rules on recipes for verl, a module for each subject. Imports none: what asks for them imports them in order."""

MODULES = (
    "batch",
    "trainer",
    "layout",
    "devices",
    "algorithm",
    "model",
    "megatron",
    "noise",
    "results",
    "reward",
    "memory",
)
"""In the order of their findings."""
