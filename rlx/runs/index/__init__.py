"""The index of runs on this machine, and finding runs by what a person types."""
