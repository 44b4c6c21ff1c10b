"""Judge runs: bring plan, evidence and state together."""
