"""The commands of `rlx`: in which group help lists each, by which other names each can be typed, what is suggested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

GROUPS = {
    "Common": (
        "init",
        "validate",
        "plan",
        "launch",
        "status",
        "logs",
        "diagnose",
        "wait",
        "stop",
        "compare",
        "report",
        "hosts",
        "doctor",
        "explain",
    ),
    "More about recipes": ("recipes", "show", "power", "layouts", "rehearse", "migrate", "schema"),
    "More about runs": (
        "queue",
        "watch",
        "attach",
        "metrics",
        "retry",
        "tag",
        "waive",
        "pull",
        "track",
        "import",
        "rm",
        "prune",
    ),
    "More about results": ("experiments", "export", "verify", "demo"),
    "Data and settings": ("data", "config", "aqn"),
}
"""What is typed daily, in the order of a day's work, then the others by subject."""

COMMANDS = tuple(name for names in GROUPS.values() for name in names)

ALIASES = {
    "": {
        "run": "launch",
        "ps": "status",
        "ls": "status",
        "list": "status",
        "top": "status --watch",
        "kill": "stop",
        "cancel": "stop",
        "ssh": "attach",
        "exec": "attach",
        "adopt": "track",
        "judge": "verify",
        "version": "--version",
        "help": "--help",
    },
    "hosts": {"ls": "list", "rm": "remove"},
}
"""What other tools, and earlier versions, call a command, by the group that it is in. Only the command's help shows it.

`help COMMAND` is the help of that command: what an alias stands for comes last where it is the option `--help`.
"""

_ACTING = frozenset({"stop", "retry", "rm", "prune", "remove", "waive", "trust", "kill", "cancel"})
"""Never suggested for a mistyped command: a suggestion is often executed without being read."""
_OTHER_TOOLS = frozenset({"abort", "clean", "delete", "destroy", "end", "purge", "restart", "terminate"})
"""What other tools call those: nothing that is spelled like it is meant."""


def expanded(words: Sequence[str], group: str = "") -> list[str]:
    """Return the words of a command line, or of a group of commands, with an alias replaced by what it stands for."""
    start = next((place for place, word in enumerate(words) if word not in ("-q", "--quiet")), len(words))
    before, typed, after = words[:start], words[start : start + 1], words[start + 1 :]
    if not typed or typed[0] not in ALIASES.get(group, {}):
        return [*words]
    meant = ALIASES[group][typed[0]].split()
    return [*before, *after, *meant] if meant == ["--help"] else [*before, *meant, *after]


def aliases_of(command: str) -> list[str]:
    """Return the other names of a command, which is named by its words, such as `hosts list`; with their options."""
    *groups, name = command.split()
    found = [(alias, meant.split()) for alias, meant in ALIASES.get(" ".join(groups), {}).items()]
    return [f"{alias} ({' '.join(meant)})" if meant[1:] else alias for alias, meant in found if meant[0] == name]


def suggested(typed: str, names: Iterable[str], group: str = "") -> list[str]:
    """Return what may have been meant by an unknown command, nearest first; nothing where that may be one that acts."""
    near = get_close_matches(typed, sorted({*names, *ALIASES.get(group, {}), *_ACTING, *_OTHER_TOOLS}))
    acting = _ACTING | _OTHER_TOOLS
    return [] if near and near[0] in acting else [name for name in near if name not in acting]
