"""Keep the index of runs on this machine, and find runs by name."""
