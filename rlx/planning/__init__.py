"""Find what would make a run fail: `rules` check the recipe, the other modules query a host without writing there.

Nothing is imported here: `rlx validate` needs the rules, and no module that connects to hosts.
"""
