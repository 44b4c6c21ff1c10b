"""The rules on recipes for MindSpeed-RL, a module for each subject. Imports none: what asks imports them in order."""

MODULES = ("layout", "settings", "limits")
"""In the order of their findings."""
