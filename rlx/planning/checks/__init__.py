"""Judge what the probes found, one subject a module."""
