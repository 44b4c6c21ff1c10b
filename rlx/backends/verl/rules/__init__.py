"""The rules on recipes for verl, a module for each subject. Imports none: what asks for them imports them in order."""

MODULES = (
    "batch",
    "limits",
    "cpu",
    "length",
    "batch_limits",
    "sampling",
    "losses",
    "seeds",
    "layout",
    "context",
    "model",
    "model_in_rollout",
    "environment",
    "noise",
    "noise_keys",
    "correction",
    "evaluation",
    "post",
    "records",
    "reward",
    "lora",
    "nla",
    "memory",
)
"""In the order of their findings."""
