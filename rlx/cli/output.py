"""How commands speak: the answer on stdout, the narration on stderr, one JSON object for `--json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlx.plan.jsonable import to_jsonable

if TYPE_CHECKING:
    from rich.console import Console

JSON_SCHEMA_VERSION = 1


_quiet = False


def be_quiet() -> None:
    """No narration from now on (`rlx --quiet`). Answers and errors are no narration."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    return _quiet


def narrate(text: str) -> None:
    """A line for the person at the terminal; never part of the answer."""
    if not _quiet:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def print_json(answer: Mapping[str, Any]) -> None:
    """The answer as one JSON object on stdout. Keys are only ever added, so scripts may rely on them."""
    document = {"schema_version": JSON_SCHEMA_VERSION, **to_jsonable(answer)}
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


# A pipe has no width: what reads it wants each row on one line.
_PIPE_WIDTH = 400


def console() -> Console:
    """Rich console on stdout: honours NO_COLOR, plain and unwrapped when piped."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
