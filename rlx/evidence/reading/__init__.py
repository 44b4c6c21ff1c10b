"""Read the logs, metrics and records that a run wrote."""
