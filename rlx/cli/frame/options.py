"""Arguments and options of several commands: how shells complete them, how lists are written, how ages are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from rlx.errors import UsageError

NUMBER_LIST = "N,..."
"""Metavar of an option that takes a list of whole numbers; `spelled_out` recognises lists by their metavars."""
NAME_LIST = "NAME,..."
ARM_LIST = "ARM,..."
HOST_LIST = "HOST,..."
"""For Typer one text, in which commas separate the hosts."""
_LISTS = frozenset({NUMBER_LIST, NAME_LIST, ARM_LIST, HOST_LIST})
AFTER_DASHES = "ARGS"
"""Metavar of an option that takes every word after `--`: the arguments of a script."""


def _from(name: str, *, lists: bool = False) -> Callable[[str], list[str]]:
    """Return a function that completes a word, for `autocompletion=`; it imports the search only when it is called.

    With `lists`, the part after the last comma is completed.
    """

    def complete(incomplete: str) -> list[str]:
        from rlx.api import completing

        before, comma, last = incomplete.rpartition(",") if lists else ("", "", incomplete)
        words: list[str] = getattr(completing, name)(last)
        return [f"{before}{comma}{word}" for word in words]

    return complete


RUNS = _from("run_names", lists=True)
ARMS = _from("arm_names", lists=True)
RECIPES = _from("recipe_names")
HOSTS = _from("host_names", lists=True)
FINDINGS = _from("finding_ids")
TRACKERS = _from("tracker_names")
TAGS = _from("tag_words")
EXPERIMENTS = _from("experiment_names")

RecipeArgument = Annotated[
    str,
    typer.Argument(help="Recipe file, name of a bundled recipe, or - for stdin.", autocompletion=RECIPES),
]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key.")]
RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="Arm, run name or id. Default: the latest launch.", autocompletion=RUNS),
]
NamedRunsArgument = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Arm, run name or id.", autocompletion=RUNS)
]
SecretFileOption = Annotated[
    str | None, typer.Option("--secret-file", help="NAME=VALUE lines, used before the environment.")
]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Follow progress until all runs finish.")]


def spelled_out(words: Iterable[str], params: Iterable[Any]) -> list[str]:
    """Return the words of a command with an option before each value of a list, as Typer expects them.

    Only numbers may follow their option one by one, since a name may be an argument. Hosts become one value with
    commas. An arm with variables or arguments of its own (`NAME:K=V`) is no list. Nothing is changed after `--`, but
    that each word is a value of the option for arguments, where the command has one.
    """
    params = list(params)
    metavars = {name: param.metavar for param in params if param.metavar in _LISTS for name in param.opts}
    after = next((param.opts[0] for param in params if param.metavar == AFTER_DASHES), "")
    spelled: list[str] = []
    hosts: dict[str, list[str]] = {}
    option = ""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            spelled += [f"{after}={each}" for each in rest] if after else [word, *rest]
        elif name in metavars:
            # What follows belongs to the option, whatever it is, so that a wrong value is reported as such.
            option, value = name, value if equals else next(rest, None)  # type: ignore[assignment]
            if value is None:
                spelled.append(word)
            elif metavars[name] == HOST_LIST:
                hosts.setdefault(name, []).append(value)
            elif metavars[name] == ARM_LIST and ":" in value:
                spelled.append(f"{name}={value}")
            else:
                spelled += _each(name, value)
        elif metavars.get(option) == NUMBER_LIST and word.replace(",", "").isdecimal():
            spelled += _each(option, word)
        else:
            option = ""
            spelled.append(word)
    return [*(f"{name}={','.join(values)}" for name, values in hosts.items()), *spelled]


def _each(option: str, value: str) -> list[str]:
    return [f"{option}={part.strip()}" for part in value.split(",")]


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_age(text: str) -> int:
    """Return the seconds of `30s`, `10m`, `2h`, `1d` or a bare number of seconds. Raise UsageError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is not a duration", "write it as 30s, 10m, 2h or 1d")
    return int(number) * _UNITS[unit]
