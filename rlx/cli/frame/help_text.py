"""The help of a command: in groups, with examples, as wide as the terminal, in colour where one shows it.

Typer's own panels would do much of it, but drawing them costs more time than all the rest of `rlx --help`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from typer.core import TyperCommand, TyperGroup

from rlx.cli.frame.examples import EXAMPLES
from rlx.cli.frame.streams import shows_colour

WIDEST = 160
"""Lines of help that are longer are hard to follow, however wide the terminal is."""

GROUPS = {
    "Recipes": ("init", "recipes", "show", "validate", "plan", "power", "layouts", "rehearse", "migrate", "schema"),
    "Runs": (
        "launch",
        "status",
        "queue",
        "logs",
        "metrics",
        "tag",
        "waive",
        "watch",
        "diagnose",
        "attach",
        "wait",
        "stop",
        "retry",
        "rm",
        "prune",
        "pull",
        "adopt",
        "import",
    ),
    "Results": ("compare", "experiments", "report", "export", "judge", "explain", "demo"),
    "Machines and data": ("doctor", "hosts", "data", "aqn"),
}
"""The commands in the order of a day's work."""

ENDS_OR_DELETES = frozenset({"stop", "rm", "prune", "remove"})
"""Never suggested for a mistyped command: a suggestion is often executed without being read."""

MEANT = {"run": "launch", "ps": "status", "ls": "status", "list": "status", "top": "status", "exec": "attach"}
"""What other tools call a command of `rlx`."""

_HEADING = re.compile(r"^(\S[^:\n]*):", re.MULTILINE)
_TERM = re.compile(r"^  (\S+(?: \S+)*)(?=  |$)", re.MULTILINE)
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"


class Help:
    """Goes before a class of Typer's: adds examples and colour to its help."""

    def get_help(self, ctx: Any) -> str:
        text: str = super().get_help(ctx)  # type: ignore[misc]
        return _coloured(text) if shows_colour() else text

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Show the examples as they are typed, then what the command says at its end."""
        if examples := EXAMPLES.get(_words(ctx)):
            with formatter.section("Examples"):
                formatter.write("".join(f"{'':>{formatter.current_indent}}{line}\n" for line in examples))
        super().format_epilog(ctx, formatter)  # type: ignore[misc]


class Command(Help, TyperCommand):
    """A command that does something."""


class CommandGroup(Help, TyperGroup):
    """Lists its commands: those of `rlx` in their groups, those of `rlx data` and the like in one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. Raise a usage error for an unknown one, with suggestions that end and delete nothing."""
        typed = args[0]
        if self.get_command(ctx, typed) is None and not typed.startswith("-"):
            harmless = [name for name in self.list_commands(ctx) if name not in ENDS_OR_DELETES]
            known = [MEANT[typed]] if typed in MEANT and MEANT[typed] in harmless else []
            near = known or get_close_matches(typed, harmless)
            suggestion = f" Did you mean {', '.join(repr(name) for name in near)}?" if near else ""
            ctx.fail(f"No such command {typed!r}.{suggestion}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        listed = {name: command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))}
        width = max((len(name) for name in listed), default=0)
        groups = {"Commands": tuple(listed)} if ctx.parent else GROUPS
        for title, names in groups.items():
            rows = [(f"{name:<{width}}", listed[name].get_short_help_str(WIDEST)) for name in names if name in listed]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _words(ctx: Any) -> str:
    """The words that name a command, without the program: `data gsm8k`."""
    return f"{_words(ctx.parent)} {ctx.info_name}".strip() if ctx.parent else ""


def _coloured(text: str) -> str:
    return _TERM.sub(rf"  {_CYAN}\1{_PLAIN}", _HEADING.sub(rf"{_BOLD}\1:{_PLAIN}", text))
