"""Foresee failures: `rules` hold the recipe against arithmetic and known faults, the rest asks a host without writing.

Nothing is imported here: `rlx validate` needs the rules, and none of what speaks with hosts.
"""
