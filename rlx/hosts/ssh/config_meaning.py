"""Tell whether the ssh config still says what it said when a connection was made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from rlx.hosts.ssh.ssh_config import ssh_config
from rlx.hosts.ssh.ssh_names import included, user_config

_SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_TELLING = re.compile(r'^[ \t]*(include|match|setenv|sendenv)\b[ \t"]*=?(.*)$', re.IGNORECASE | re.MULTILINE)
_OF_THE_MOMENT = re.compile(r"\b(exec|localnetwork)\b", re.IGNORECASE)
_LOCALE = re.compile(r"([\s\"]|-?(LANG|LANGUAGE|LC_\S*))*")


def config_meaning() -> str | None:
    """Digest all files of the config; None where a command or variable that they name may change what they mean."""
    digest = hashlib.sha256()
    for path, text in _files():
        if any(_may_change(keyword.lower(), rest) for keyword, rest in _TELLING.findall(text)):
            return None
        digest.update(f"{path}\0{text}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _may_change(keyword: str, rest: str) -> bool:
    """ssh sends variables with each session, but for those of the locale, which rlx keeps from it."""
    if keyword == "sendenv":
        return not _LOCALE.fullmatch(rest)
    return keyword == "setenv" or (keyword == "match" and bool(_OF_THE_MOMENT.search(rest)))


def _files() -> Iterator[tuple[Path, str]]:
    """Each file of the config once, with its text; nothing of those that cannot be read."""
    waiting = [user_config()] if ssh_config() else [user_config(), _SYSTEM_CONFIG]
    seen = set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = _text(path)
        yield path, text
        waiting += _included_by(path, text)


def _included_by(path: Path, text: str) -> Iterator[Path]:
    folder = _SYSTEM_CONFIG.parent if path.is_relative_to(_SYSTEM_CONFIG.parent) else None
    for keyword, rest in _TELLING.findall(text):
        if keyword.lower() == "include":
            for pattern in rest.replace('"', " ").split():
                yield from included(pattern, folder)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except OSError:
        return ""
