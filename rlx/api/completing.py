"""Complete a word on the command line: only local files are read, no host is queried.

A shell waits for each answer, so this reads the index without the modules around it, never changes anything, and has
no words for what cannot be read.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any

_MOST_RUNS = 200
# A shell interprets other characters (`$`, quotes, spaces): a run that others named so is not offered.
_WORD = re.compile(r"[\w.@:+-]+")


def _completer(words: Callable[[str], Iterable[str]]) -> Callable[[str], list[str]]:
    """Keep the words that begin as typed; return none where anything cannot be read."""

    @wraps(words)
    def complete(incomplete: str) -> list[str]:
        try:
            found = [word for word in words(incomplete) if word.startswith(incomplete) and _WORD.fullmatch(word)]
        except Exception:  # noqa: BLE001 - a traceback must not appear in a command line that is being typed
            return []
        return list(dict.fromkeys(found))

    return complete


@_completer
def run_names(incomplete: str) -> Iterable[str]:
    """Arms of the newest launches first, then experiments and run ids."""
    runs = _runs()
    yield from (arm for _, _, arm in runs)
    yield from (name for _, name, _ in runs)
    yield from (run_id for run_id, _, _ in runs)


@_completer
def arm_names(incomplete: str) -> Iterable[str]:
    """Arms of earlier launches."""
    yield from (arm for _, _, arm in _runs())


@_completer
def host_names(incomplete: str) -> Iterable[str]:
    """Hosts of the user's and the project's file, and `local`."""
    from rlx.hosts import known_hosts
    from rlx.model import LOCAL

    yield LOCAL.host
    yield from known_hosts()


@_completer
def finding_ids(incomplete: str) -> Iterable[str]:
    """Ids of findings, in whatever case they are typed."""
    from rlx.findings import finding_ids as all_ids

    yield from (
        id if incomplete.isupper() or not incomplete else incomplete + id[len(incomplete) :]
        for id in all_ids()
        if id.startswith(incomplete.upper())
    )


@_completer
def tracker_names(incomplete: str) -> Iterable[str]:
    """Trackers that runs can be exported to."""
    from rlx.trackers.tracker_table import tracker_names as names

    yield from names()


@_completer
def tag_words(incomplete: str) -> Iterable[str]:
    """Tags that some run has."""
    yield from (tag for (tag,) in _rows("labels.db", "SELECT DISTINCT tag FROM tags ORDER BY tag"))


@_completer
def experiment_names(incomplete: str) -> Iterable[str]:
    """Recipes whose experiments were registered from here."""
    from rlx.api.runs import rlx_home

    texts = (path.read_text(encoding="utf-8") for path in (rlx_home() / "experiments").glob("*.json"))
    yield from (json.loads(text)["name"] for text in texts)


def recipe_names(incomplete: str) -> list[str]:
    """Recipes that come with rlx, then YAML files and folders, as far as the path is typed."""
    from rlx.resources import recipes_folder

    try:
        bundled = [path.stem for path in recipes_folder().glob("*.yaml") if path.stem.startswith(incomplete)]
        folder, _, begun = incomplete.rpartition("/")
        here = Path(folder or ("/" if incomplete.startswith("/") else ".")).expanduser()
        paths = [path for path in sorted(here.iterdir()) if path.name.startswith(begun) and path.name[0] != "."]
    except (OSError, RuntimeError):
        return []
    prefix = incomplete[: len(incomplete) - len(begun)]
    fitting = [path for path in paths if path.suffix in (".yaml", ".yml") or path.is_dir()]
    files = [f"{prefix}{path.name}{'/' if path.is_dir() else ''}" for path in fitting]
    return [*sorted(bundled), *files]


def _runs() -> list[tuple[Any, ...]]:
    """Run id, experiment and arm of the newest runs."""
    shown = "arrived = 1 AND node = 0 AND run_id NOT IN (SELECT run_id FROM tombstones)"
    query = f"SELECT run_id, name, arm FROM runs WHERE {shown} ORDER BY created DESC, position LIMIT {_MOST_RUNS}"
    return _rows("index.db", query)


def _rows(name: str, query: str) -> list[tuple[Any, ...]]:
    """Query a database of this user directly and read-only; importing the index module takes half a second."""
    from rlx.api.runs import rlx_home

    path = rlx_home() / name
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.05)) as file:
        return file.execute(query).fetchall()
