"""Read a bash script for what it would run, without running anything: its commands, their words and environment.

Bash's grammar is tree-sitter's. This package works out what a shell would do as far as that can be known, within
bounds of size, steps and depth. It knows nothing of what the commands mean.
"""

from rlx.shell_reader.evaluator import read_script
from rlx.shell_reader.shell_words import ShellCommand, ShellScript, Skipped, Unknown, Variable, Word

__all__ = ["ShellCommand", "ShellScript", "Skipped", "Unknown", "Variable", "Word", "read_script"]
