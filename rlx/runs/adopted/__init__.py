"""Runs that somebody started by hand, taken in by their log."""
