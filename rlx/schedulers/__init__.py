"""Grant devices to runs: one folder for each scheduler, found by its name in a host's entry."""
