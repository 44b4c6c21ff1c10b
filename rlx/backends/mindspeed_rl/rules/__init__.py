"""The rules on recipes for MindSpeed-RL, a module for each subject. Imports none: what asks imports them in order."""

MODULES = ("post", "layout", "settings", "reward", "records", "limits")
"""In the order of their findings."""
