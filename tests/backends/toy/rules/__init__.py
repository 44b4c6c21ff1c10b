"""Its rules on recipes."""

MODULES = ("pace",)
