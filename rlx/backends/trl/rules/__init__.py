"""The rules on recipes for TRL, a module for each subject. Imports none: what asks imports them in order."""

MODULES = ("post", "batch", "algorithm", "limits", "evaluation", "vllm")
"""In the order of their findings."""
