"""Remember what this user has allowed.

Programs that only a recipe names, by host, container and path; files of projects, by path and content.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.errors import RlxError, UsageError
from rlx.hosts.inventory.host import HostFile
from rlx.hosts.inventory.host_file import parse_host_file, read_text
from rlx.hosts.inventory.host_files import project_file, user_file
from rlx.model import LOCAL, Site

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


@dataclass(frozen=True, slots=True)
class Project:
    """A project's file as it was read once: what is shown, trusted and used is the same text."""

    path: Path
    text: str

    def content(self) -> HostFile:
        """Read the content. Raises UsageError for a file with mistakes."""
        return parse_host_file(self.text, str(self.path)) if self.text.strip() else HostFile()

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def allowed(self) -> frozenset[str] | None:
        """Return which entries of the user it may replace; None for a content that is not trusted."""
        return allowed_project(str(self.path), self._digest)

    @property
    def is_trusted(self) -> bool:
        """Return whether the content is trusted; an empty file changes nothing, so there is nothing to trust."""
        return not self.text.strip() or self.allowed() is not None

    def trust(self, replaces: frozenset[str]) -> None:
        """Remember the content, and the names of the user's entries that it was shown to replace."""
        allow_project(str(self.path), self._digest, replaces)

    def counted(self, user: HostFile) -> HostFile:
        """Return what counts of it: of an untrusted content nothing, of the user's own names those that were shown."""
        allowed = self.allowed()
        if allowed is None:
            return HostFile()
        content = self.content()
        own = own_names(content, user)
        hosts = {name: host for name, host in content.hosts.items() if name not in own or name in allowed}
        return HostFile(hosts, content.defaults)

    def refuse_if_untrusted(self, what: str) -> None:
        """Raise UsageError for a file that would have to be trusted."""
        if not self.is_trusted:
            raise UsageError(f"{what} {self.path}, whose content you have not trusted", TRUST_FIX)


TRUST_FIX = "rlx hosts trust shows what it would change, and remembers it; a changed file is asked for again"


def read_project() -> Project | None:
    """Read it, if there is one.

    Raises UsageError for one that cannot be read, or that RLX_PROJECT names and does not exist.
    """
    path = project_file()
    if path is None:
        return None
    if not path.exists():
        raise UsageError(f"RLX_PROJECT names {path}, which does not exist", "unset it, or correct it")
    return Project(path, read_text(path))


def own_names(content: HostFile, user: HostFile) -> frozenset[str]:
    """Choose the names of a project's hosts that mean something already: `local`, the user's, or of the ssh config."""
    from rlx.hosts.ssh.ssh_config import is_ssh_name

    own: Mapping[str, object] = {LOCAL.host: None, **user.hosts}
    return frozenset(name for name in content.hosts if name in own or is_ssh_name(name))
