"""Parse command lines as the rlx of this interpreter does, and print the faults of those that it does not understand.

It is a program of its own, so that an installed rlx can run it: it reads a JSON list of command lines from stdin, and
executes none of them.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec
from typing import Any

import typer.main

from rlx.cli.frame.app import command_line
from rlx.cli.frame.commands import expanded


def main() -> None:
    top = typer.main.get_command(command_line())
    faults = {line: fault for line in json.load(sys.stdin) if (fault := fault_of(line, top))}
    json.dump(faults, sys.stdout)


def fault_of(line: str, top: Any) -> str:
    """Return why the command line cannot be run, or "" if it can."""
    program, *words = shlex.split(line)
    if program != "rlx":
        (module,) = words[1:2]
        return "" if find_spec(module) else f"no module {module}"
    command, named = top, words[:0]
    words = expanded(words)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        if name not in command.commands:
            return f"no command {name}"
        command, named = command.commands[name], [*named, name]
        words = expanded(words, " ".join(named)) if hasattr(command, "commands") else words
    if hasattr(command, "commands"):  # `rlx --version`, or a group alone, which prints its help or its list
        return ""
    try:
        command.make_context(" ".join(named), list(words))
    except Exception as error:  # noqa: BLE001 (Typer has click's errors, or copies of them, by its version)
        return str(getattr(error, "message", "") or error) or type(error).__name__
    return ""


if __name__ == "__main__":
    main()
