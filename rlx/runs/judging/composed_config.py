"""The configuration that the training program composed in the container: its own files and every override together.

A back-end that composes one is told to write it to a place of the run directory, before anything else runs.
Interpolations are left as they are written, so it holds no value of the environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from rlx.evidence.cache.file_digest import digest_of_files
from rlx.evidence.reading.foreign_config import read_printed_config
from rlx.model.run_dir import COMPOSED_FILE, LOG_FILE, PRINTED_FILE
from rlx.runs.judging.parser_cache import ParsedFiles

Tree: TypeAlias = Mapping[str, Any]

_MOST_BYTES = 4 << 20


def configurations(attempt: Path, parsed: ParsedFiles) -> dict[str, Mapping[str, Any]]:
    """Read what the container composed (`config`) and what the log shows of it (`printed_config`), if there.

    The files of a fork may set what no recipe names.
    """
    found = {
        "config": composed_configuration(attempt, parsed),
        "printed_config": printed_configuration(attempt, parsed),
    }
    return {kind: tree for kind, tree in found.items() if tree}


def composed_configuration(attempt: Path, parsed: ParsedFiles) -> Tree:
    """Read what the container composed; empty where it wrote nothing down."""
    return _once(read_composed, attempt, attempt / COMPOSED_FILE, parsed)


def printed_configuration(attempt: Path, parsed: ParsedFiles) -> Tree:
    """Read what the log of an attempt shows of its configuration; empty where that is nothing.

    A copy of a log on another host lacks these lines: what launch.sh took out of it stands in for them.
    """
    files = (attempt / LOG_FILE, attempt / PRINTED_FILE)
    return next((tree for file in files if (tree := _once(read_printed_config, file, file, parsed))), {})


def _once(read: Callable[[Path], Tree], argument: Path, file: Path, parsed: ParsedFiles) -> Tree:
    """Read again only where the file has changed."""
    if not (digest := digest_of_files([file])):
        return read(argument)
    found: Tree | None = parsed.remembered((read.__name__, file), digest, lambda: _as_json(read(argument)))
    return read(argument) if found is None else found


def _as_json(tree: Tree) -> Tree | None:
    """Convert; None for a tree that JSON would change: YAML knows dates, and names that are numbers."""
    try:
        return tree if json.loads(json.dumps(tree)) == tree else None
    except (TypeError, ValueError):
        return None


def read_composed(attempt: Path) -> Mapping[str, Any]:
    """The configuration of an attempt as a tree; empty where none was written, or it cannot be read."""
    try:
        with (attempt / COMPOSED_FILE).open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return {}
    tree = _parse(text)
    return tree if isinstance(tree, dict) else {}


@lru_cache(maxsize=64)
def _parse(text: bytes) -> Any:
    """Parse each text once: several checks ask for the same one, and runs of one experiment often share it."""
    from rlx.yaml_reader.hydra import read_hydra
    from rlx.yaml_reader.reader import YamlError

    try:
        return read_hydra(text.decode("utf-8"))
    except (YamlError, UnicodeDecodeError):
        return None
