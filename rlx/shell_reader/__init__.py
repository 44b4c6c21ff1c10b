"""Read a bash script for what it would run, without running anything: its commands, their words and environment.

Bash's grammar is tree-sitter's. What a shell would do with it is worked out here as far as it can be known, within
bounds of size, steps and depth. Nothing here knows what the commands mean.
"""

from rlx.shell_reader.evaluator import read_script
from rlx.shell_reader.shell_script import ShellCommand, ShellScript, Skipped
from rlx.shell_reader.shell_words import Unknown, Variable, Word

__all__ = ["ShellCommand", "ShellScript", "Skipped", "Unknown", "Variable", "Word", "read_script"]
