"""Find the files of hosts: one of the user, one of the project that one works in."""

from __future__ import annotations

import os
from pathlib import Path

from rlx.errors import RlxError, UsageError

PROJECT_FILE = "rlx.yaml"


def user_file() -> Path:
    """`$RLX_CONFIG/hosts.yaml`, else in the XDG config folder. Raises RlxError for an account without a home."""
    folder = os.environ.get("RLX_CONFIG") or f"{os.environ.get('XDG_CONFIG_HOME') or '~/.config'}/rlx"
    try:
        return Path(folder).expanduser().absolute() / "hosts.yaml"
    except RuntimeError:
        raise RlxError(f"{folder}: there is no such home directory", "set RLX_CONFIG to a folder of yours") from None


def project_file() -> Path | None:
    """`$RLX_PROJECT`, else the nearest rlx.yaml, from the working directory up to the home directory, or None.

    Raises UsageError for one of another user: it could send a launch and its secrets to a host of theirs.
    """
    if chosen := os.environ.get("RLX_PROJECT"):
        return Path(chosen).absolute()
    home = Path(os.environ.get("HOME", "/")).resolve()
    for folder in _folders_upward():
        path = folder / PROJECT_FILE
        if _is_file(path):
            return _own(path)
        if folder == home:
            break
    return None


def _folders_upward() -> tuple[Path, ...]:
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed under the shell
        return ()
    return (here, *here.parents)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _own(path: Path) -> Path:
    owner = path.stat().st_uid
    if owner not in (0, os.geteuid()):
        raise UsageError(
            f"{path} belongs to another user (uid {owner}), and it says where launches go",
            f"work in a copy of your own, or name it yourself: export RLX_PROJECT={path}",
        )
    return path
