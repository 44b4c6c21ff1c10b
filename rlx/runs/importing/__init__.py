"""Runs that rlx did not start, taken in by their logs: followed while they grow (adopt), or as they are (import)."""
