"""Schedulers: the registry, and one of another distribution."""
