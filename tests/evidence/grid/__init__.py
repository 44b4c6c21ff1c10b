"""Edited runs over a grid: the file that is edited, the link of the chain of evidence, caught or honest."""
