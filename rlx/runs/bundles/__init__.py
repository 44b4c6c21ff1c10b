"""Runs as files that somebody else can judge again: what of them goes into an archive, and how it comes out of one."""
