"""Reads YAML text that anybody may have written, for recipes, files of hosts, and configurations of back-ends."""
