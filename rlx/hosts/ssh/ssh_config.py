"""Choose the ssh config that every connection reads, and read the names that it gives to hosts.

`ssh -G` answers for any word, so the file itself is read.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

_INCLUDE_DEPTH = 16  # what ssh itself allows
_MATCH_BY_NAME = ("host", "originalhost")


def ssh_config() -> str | None:
    """Name another ssh config than the user's: `$RLX_SSH_CONFIG`."""
    chosen = os.environ.get("RLX_SSH_CONFIG")
    return str(Path(chosen).expanduser().absolute()) if chosen else None


def is_ssh_name(name: str) -> bool:
    """Return whether a `Host` or `Match host` line names this host in particular, not of every host."""
    return any(_matches(name, patterns) for patterns in _patterns(_user_config(), 0))


def ssh_names() -> list[str]:
    """Return the names in the config without a wildcard, in its order."""
    words = (word for patterns in _patterns(_user_config(), 0) for word in patterns)
    return list(dict.fromkeys(word for word in words if not set(word) & set("*?!")))


def _user_config() -> Path:
    """Name the user's config."""
    return Path(ssh_config() or _folder() / "config")


def _folder() -> Path:
    """ssh asks the account where its home is, not `$HOME`."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir, ".ssh")
    except KeyError:
        return Path("/nonexistent")


def _matches(name: str, patterns: list[str]) -> bool:
    wanted = [pattern for pattern in patterns if not pattern.startswith("!") and pattern.strip("*?")]
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(fnmatchcase(name, pattern) for pattern in wanted)


def _patterns(config: Path, depth: int) -> Iterator[list[str]]:
    for keyword, words in _lines(config):
        if keyword == "host":
            yield words
        elif keyword == "match":
            named = pairwise(words)
            yield [pattern for word, names in named if word.lower() in _MATCH_BY_NAME for pattern in names.split(",")]
        elif keyword == "include" and depth < _INCLUDE_DEPTH:
            for pattern in words:
                for path in _included(pattern):
                    yield from _patterns(path, depth + 1)


def _included(pattern: str) -> list[Path]:
    """Yield the files that an Include names; relative ones are beside the user's config."""
    path = _folder().parent / pattern[2:] if pattern.startswith("~/") else _folder() / pattern
    try:
        return sorted(Path("/").glob(str(path.relative_to("/"))))
    except (ValueError, OSError):
        return []


def _lines(config: Path) -> Iterator[tuple[str, list[str]]]:
    """Keyword in lower case and its words; `Keyword=value` is allowed, too. What cannot be read says nothing."""
    try:
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            words = shlex.split(line.replace("=", " ", 1), comments=True)
        except ValueError:
            continue
        if words:
            yield words[0].lower(), words[1:]
