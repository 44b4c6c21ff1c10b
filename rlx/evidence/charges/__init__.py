"""The charges of a verdict, one kind a module."""
