"""Choose the sockets of shared ssh connections."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from rlx.errors import RlxError


def control_path(config: str | None) -> str:
    """ssh's ControlPath: one connection for each ssh config and `%C`, ssh's hash of user, host, port and jump.

    The path is short: a socket's has at most 104 bytes, ssh appends 17 for a while, and TMPDIR may be long. Raises
    RlxError as `socket_folder` does.
    """
    digest = hashlib.sha256((config or "").encode(errors="surrogateescape")).hexdigest()
    return f"{socket_folder()}/{digest[:8]}%C"


def socket_folder() -> Path:
    """The folder of the sockets, private to this user. Raises RlxError if it is another's, or cannot be made."""
    folder = Path("/tmp") / f"rlx-ssh-{os.getuid()}"
    try:
        # What is there already, a folder or not, is looked at next.
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError as error:
        raise RlxError(f"{folder}: {error.strerror}", "rlx keeps the sockets of ssh connections there") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise RlxError(
            f"{folder}: not a private folder of this user (it holds the sockets of ssh connections)",
            f"if it is yours: chmod 700 {folder}; if not, ask its owner or the administrator to remove it",
        )
    return folder
