"""Determine the state of runs, and of the devices that they wait for."""
