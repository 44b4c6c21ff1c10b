"""What grants devices to runs: one folder a scheduler, found by its name in a host's entry."""
