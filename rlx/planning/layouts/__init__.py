"""Enumerate the splits of a model and batch over devices."""
