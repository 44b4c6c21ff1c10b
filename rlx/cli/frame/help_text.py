"""The help of a command: in groups, with examples, as wide as the terminal, in colour if the terminal has colours.

Typer's own panels would do much of it, but drawing them takes longer than the rest of `rlx --help`.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from typer.core import TyperCommand, TyperGroup

from rlx.cli.frame.commands import ALIASES, EXAMPLES, GROUPS, aliases_of, expanded, suggested
from rlx.cli.frame.options import spelled_out
from rlx.cli.frame.streams import shows_colour

WIDEST = 160
"""Longer lines of help are hard to read, however wide the terminal is."""
NO_BREAK = "\u00a0"
"""A space at which a line of help does not break; it is printed as an ordinary one."""

_HEADING = re.compile(r"^(\S[^:\n]*):", re.MULTILINE)
_TERM = re.compile(r"^  (\S+(?: \S+)*)(?=  |$)", re.MULTILINE)
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"


class Help:
    """Mixin for classes of Typer that adds aliases, examples and colour to the help."""

    def get_help(self, ctx: Any) -> str:
        text: str = super().get_help(ctx).replace(NO_BREAK, " ")  # type: ignore[misc]
        return _coloured(text) if shows_colour(sys.stdout) else text

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the other names of the command, its examples as they are typed, and its epilog."""
        if aliases := ctx.parent and aliases_of(_words(ctx)):
            with formatter.section("Aliases"):
                formatter.write_text(", ".join(aliases))
        if examples := EXAMPLES.get(_words(ctx)):
            with formatter.section("Examples"):
                formatter.write("".join(f"{'':>{formatter.current_indent}}{line}\n" for line in examples))
        super().format_epilog(ctx, formatter)  # type: ignore[misc]


class Command(Help, TyperCommand):
    """A command that is no group."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the arguments, after lists are spelled out as Typer expects them."""
        return super().parse_args(ctx, spelled_out(args, self.params))


class CommandGroup(Help, TyperGroup):
    """Lists its commands: those of `rlx` in their groups, those of groups such as `rlx data` in one list."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, also by an alias. Raise a usage error for an unknown one, with harmless suggestions."""
        group = _words(ctx)
        args = expanded(args, group)
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = suggested(args[0], self.list_commands(ctx), group)
            suggestion = f" Did you mean {', '.join(repr(name) for name in near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{suggestion}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Offer the commands that begin with the word, and aliases once one letter is typed."""
        offered = super().shell_complete(ctx, incomplete)
        aliases = ALIASES.get(_words(ctx), {}) if incomplete else {}
        begun = {alias: meant.split()[0] for alias, meant in aliases.items() if alias.startswith(incomplete)}
        known = {item.value: item for item in super().shell_complete(ctx, "")} if begun else {}
        meant = {alias: known[name] for alias, name in begun.items() if name in known}
        return [*offered, *(type(item)(alias, help=item.help) for alias, item in meant.items())]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        listed = {name: command for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))}
        width = max((len(name) for name in listed), default=0)
        groups = {"Commands": tuple(listed)} if ctx.parent else GROUPS
        for title, names in groups.items():
            rows = [(f"{name:<{width}}", listed[name].get_short_help_str(WIDEST)) for name in names if name in listed]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def misuse(error: Any) -> tuple[str, str]:
    """Return what is wrong with a command line that Typer does not understand, and what to type."""
    context = getattr(error, "ctx", None)
    words = _words(context) if context else ""
    command = f"rlx {words}".rstrip()
    if context is None or words not in EXAMPLES:
        return error.format_message(), f"{command} -h lists the commands"
    if type(error).__name__ != "MissingParameter" or error.param.param_type_name != "argument":
        return error.format_message(), f"{command} -h lists the options"
    needed = [piece.strip("{}") for piece in context.command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    missing = error.param.make_metavar(context).strip("{}").removesuffix("...")
    return f"{missing} is missing: {' '.join([command, *needed])}", f"for example: {EXAMPLES[words][0]}"


def _words(ctx: Any) -> str:
    """Return the words that name a command, without the program: `data gsm8k`."""
    return f"{_words(ctx.parent)} {ctx.info_name}".strip() if ctx.parent else ""


def _coloured(text: str) -> str:
    return _TERM.sub(rf"  {_CYAN}\1{_PLAIN}", _HEADING.sub(rf"{_BOLD}\1:{_PLAIN}", text))
