"""Options that take several whole numbers: `--seed 1 2 3` is `--seed 1 --seed 2 --seed 3`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

from typer.core import TyperCommand, TyperOption

from rlx.cli.frame.help_text import Help
from rlx.cli.frame.output import be_quiet

_QUIET = TyperOption(
    param_decls=["--quiet", "-q"],
    is_flag=True,
    expose_value=False,
    hidden=True,
    callback=lambda _context, _option, is_wanted: be_quiet() if is_wanted else None,
)


class Command(Help, TyperCommand):
    """A command whose repeatable options of whole numbers take all those that follow, wherever they stand.

    It takes `-q` like `rlx` itself, for whoever thinks of it last.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        return [*super().get_params(ctx), _QUIET]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [name for option in self.params if _takes_several(option) for name in option.opts]
        return super().parse_args(ctx, list(one_by_one(args, options)))


def one_by_one(words: Iterable[str], options: Collection[str]) -> Iterator[str]:
    """`words` with one of `options` before each of its numbers; nothing is changed behind a `--`."""
    rest = iter(words)
    option = ""
    for word in rest:
        name, equals, _ = word.partition("=")
        if option and word.isdecimal():
            yield from (option, word)
            continue
        option = name if name in options else ""
        yield word
        if word == "--":
            break
        if option and not equals:
            # The first value is the option's, whatever it is: a wrong one is named as such.
            yield from islice(rest, 1)
    yield from rest


def _takes_several(option: Any) -> bool:
    return bool(getattr(option, "multiple", False)) and option.type.name.startswith("int")
