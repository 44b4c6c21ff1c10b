"""Travel to a host and run there: files that import nothing of rlx."""
