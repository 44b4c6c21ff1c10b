"""Read YAML text that anybody may have written, for recipes, files of hosts, and configurations of back-ends.

It knows the grammars and their limits, and nothing of the keys that a file may hold.
"""
