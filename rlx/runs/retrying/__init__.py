"""Begin a further attempt of a run: what it could go on from, and the attempt itself."""
