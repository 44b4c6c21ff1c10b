"""The rules on recipes for TRL, a module for each subject. Imports none: what asks imports them in order."""

MODULES = ("limits",)
"""In the order of their findings."""
