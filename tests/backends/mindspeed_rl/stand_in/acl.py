"""Plays the Python module of CANN, which a look at a host imports."""
