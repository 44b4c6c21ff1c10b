"""Read a checkout's commit from its files, because `git` would obey the configuration that lies in it."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def commit_of(checkout: Path) -> str | None:
    """Return the commit that is checked out, None outside of git. Says nothing of changes on top of it."""
    folder = _git_folder(checkout / ".git")
    head = _line(folder / "HEAD")
    name = head.removeprefix("ref: ")
    if name != head and not re.fullmatch(r"refs/[\w./-]+", name):
        return None
    common = folder / _line(folder / "commondir") if _line(folder / "commondir") else folder
    found = head if name == head else _line(common / name) or _packed(common, name)
    return found if _COMMIT.fullmatch(found) else None


def _git_folder(path: Path) -> Path:
    """A worktree has a file there that names the folder."""
    return path.parent / _line(path).removeprefix("gitdir: ") if path.is_file() else path


def _line(path: Path) -> str:
    return _text(path)[:4096].strip()


def _packed(folder: Path, name: str) -> str:
    lines = _text(folder / "packed-refs").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def _text(path: Path) -> str:
    """A pipe in its place would keep a reader for ever."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return ""
