"""A back-end that trains nothing: all that rlx knows of it lies in this folder, and in one row of the registry."""
