"""The use cases of rlx as functions: they return values and print nothing."""
