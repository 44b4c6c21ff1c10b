"""Files of runs on other machines, copied here: what a verdict needs, by itself; all of them, where somebody asks."""
