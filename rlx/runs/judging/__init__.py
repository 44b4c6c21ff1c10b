"""Judge runs: combine plan, evidence and state."""
