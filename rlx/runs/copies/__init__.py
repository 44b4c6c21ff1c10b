"""Copy files of runs from other machines: what a verdict needs, automatically; all of them, on request."""
