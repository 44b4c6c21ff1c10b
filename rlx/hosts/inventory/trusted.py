"""Remember what this user has allowed.

Programs that only a recipe names, by host, container and path; files of projects, by path and content.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from rlx.errors import RlxError
from rlx.hosts.inventory.host_files import user_file
from rlx.model import Site

_PLAIN_PYTHON = re.compile(r"python(3(\.\d{1,2})?)?")
_PROGRAMS = "programs"
_PROJECTS = "projects"
_SIZE_LIMIT = 1_000_000


def is_plain_python(program: str) -> bool:
    """Return whether a name means the Python on the PATH of host or container, which no recipe chooses."""
    return _PLAIN_PYTHON.fullmatch(program) is not None


def is_allowed(site: Site, program: str) -> bool:
    """Return whether this user has allowed to start the program for a query."""
    return _entry(site, program) in _read().get(_PROGRAMS, [])


def allow(site: Site, program: str) -> None:
    """Remember it. Raises RlxError where nothing can be written."""
    known = _read()
    _write({**known, _PROGRAMS: [*known.get(_PROGRAMS, []), _entry(site, program)]})


def allowed_project(path: str, digest: str) -> frozenset[str] | None:
    """Find the names that a content may replace; None if this content was not trusted at this place."""
    found = [names for known, content, names in _project_entries() if (known, content) == (path, digest)]
    return frozenset(map(str, found[-1])) if found else None


def allow_project(path: str, digest: str, replaces: frozenset[str]) -> None:
    """Remember a content in place of what was trusted there before. Raises RlxError where nothing can be written."""
    others = [entry for entry in _project_entries() if entry[0] != path]
    _write({**_read(), _PROJECTS: [*others, [path, digest, sorted(replaces)]]})


def _project_entries() -> list[list[Any]]:
    entries = _read().get(_PROJECTS, [])
    return [entry for entry in entries if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], list)]


def trust_file() -> Path:
    """Return the path of the file beside the user's own hosts.yaml."""
    return user_file().with_name("trusted.json")


def _entry(site: Site, program: str) -> list[str]:
    return [site.place.destination or site.host, site.container or "", program]


def _read() -> dict[str, list[Any]]:
    """Read what was allowed; anything but such a file allows nothing, and then everything is asked again."""
    try:
        with trust_file().open(encoding="utf-8") as file:
            found = json.loads(file.read(_SIZE_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, list)} if isinstance(found, dict) else {}


def _write(document: dict[str, list[Any]]) -> None:
    path = trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
        Path(temporary).replace(path)
    except OSError as error:
        raise RlxError(f"{path} cannot be written: {error.strerror}") from None
