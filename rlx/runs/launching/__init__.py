"""Launch plans: journal, ship, start, and let the nodes of a run agree."""
