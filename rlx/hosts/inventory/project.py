"""Read the project's file of hosts, which counts only as far as this user has trusted its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import UsageError
from rlx.hosts.inventory import trusted
from rlx.hosts.inventory.host import HostFile
from rlx.hosts.inventory.host_file import parse_host_file, read_text
from rlx.hosts.inventory.host_files import project_file
from rlx.model import LOCAL


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
        return trusted.allowed_project(str(self.path), self._digest)

    @property
    def is_trusted(self) -> bool:
        """Return whether the content is trusted; an empty file changes nothing, so there is nothing to trust."""
        return not self.text.strip() or self.allowed() is not None

    def trust(self, replaces: frozenset[str]) -> None:
        """Remember the content, and the names of the user's entries that it was shown to replace."""
        trusted.allow_project(str(self.path), self._digest, replaces)

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
