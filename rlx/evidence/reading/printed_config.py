"""The resolved configuration that verl prints at its start, from the console log of a run that somebody else launched.

Source: verl/trainer/main_ppo.py, `pprint(OmegaConf.to_container(config, resolve=True))` in the task runner, whose lines
Ray marks with `(TaskRunner pid=7)` and may mix with those of others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

# It comes before the model is loaded, and takes a thousand lines.
_HEAD_BYTES = 8 << 20
_MOST_LINES = 20_000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SPEAKER = re.compile(r"\(\w+ (?:pid=\d+(?:, ip=[^)\s]+)?)\) ?")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_BEGIN = "{'"


def read_printed_config(log: Path) -> Mapping[str, Any]:
    """The configuration as a tree; empty where the log has none that can be read."""
    try:
        with log.open("rb") as stream:
            text = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    return parse_printed_config(_ANSI.sub("", text).splitlines())


def parse_printed_config(lines: Iterable[str]) -> Mapping[str, Any]:
    """The first dictionary with an actor in it that one process prints, in lines without colours."""
    lines = iter(lines)
    for line in lines:
        speaker = _speaker(line)
        body = line[len(speaker) :]
        if body.startswith(_BEGIN) and "actor" in body:
            rest = (each[len(speaker) :] for each in lines if _speaker(each) == speaker)
            return _read(_until_closed(chain([body], rest)))
    return {}


def _speaker(line: str) -> str:
    match = _SPEAKER.match(line)
    return match[0] if match else ""


def _until_closed(body: Iterator[str]) -> list[str]:
    """The lines of one dictionary. Ray may tear a line in two and drop blanks at its begin: brackets alone count."""
    kept: list[str] = []
    depth = 0
    for line in islice(body, _MOST_LINES):
        kept.append(line)
        bare = _QUOTED.sub("", line)
        depth += sum(map(bare.count, "{[(")) - sum(map(bare.count, "}])"))
        if depth <= 0:
            break
    return kept


def _read(body: list[str]) -> Mapping[str, Any]:
    try:
        tree = ast.literal_eval("\n".join(body))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return {}
    return tree if isinstance(tree, dict) else {}
