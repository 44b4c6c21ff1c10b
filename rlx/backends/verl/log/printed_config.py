"""Read the resolved configuration that verl prints at its start, because it is all that a foreign log has of it.

Source: verl/trainer/main_ppo.py, `pprint(OmegaConf.to_container(config, resolve=True))` in the task runner, whose lines
Ray marks with `(TaskRunner pid=7)` and may mix with those of others, and with what the same process says of errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

_MOST_LINES = 20_000
_SPEAKER = re.compile(r"\(\w+ (?:pid=\d+(?:, ip=[^)\s]+)?)\) ?")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_BEGIN = "{'"
# Each line of it begins with a key, a value or a bracket. A warning begins with a path, a word or a date.
_LITERAL = re.compile(r"""\s*(?:[\[\](){}'":,]|-?\d[\d.e+-]*\s*[\]}),]|(?:None|True|False)\b|$)""")


def parse_printed_config(lines: Iterable[str]) -> Mapping[str, Any]:
    """The first dictionary with an actor in it that one process prints, in lines without colours."""
    lines = iter(lines)
    for line in lines:
        speaker = _speaker(line)
        body = line[len(speaker) :]
        if body.startswith(_BEGIN) and "actor" in body:
            rest = (each[len(speaker) :] for each in lines if _speaker(each) == speaker)
            printed = [body, *islice(rest, _MOST_LINES)]
            return _read(_until_closed(printed)) or _read(_until_closed(filter(_LITERAL.match, printed)))
    return {}


def _speaker(line: str) -> str:
    match = _SPEAKER.match(line)
    return match[0] if match else ""


def _until_closed(body: Iterable[str]) -> list[str]:
    """The lines of one dictionary. Ray may tear a line in two and drop blanks at its begin: brackets alone count."""
    kept: list[str] = []
    depth = 0
    for line in body:
        kept.append(line)
        bare = _QUOTED.sub("", line)
        depth += sum(map(bare.count, "{[(")) - sum(map(bare.count, "}])"))
        if depth <= 0:
            break
    return kept


def _read(body: list[str]) -> Mapping[str, Any]:
    import ast

    try:
        tree = ast.literal_eval("\n".join(body))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return {}
    return tree if isinstance(tree, dict) else {}
