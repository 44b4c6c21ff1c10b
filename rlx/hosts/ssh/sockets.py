"""Choose the sockets of shared ssh connections."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from rlx.errors import RlxError
from rlx.hosts.ssh.config_meaning import config_meaning

_TOKEN = "%C"
_TOKEN_LENGTH = 40


def control_path(config: str | None, destination: str) -> str:
    """ssh's ControlPath: one connection a destination and ssh config.

    The path is short: a socket's has at most 104 bytes, ssh appends 17 for a while, and TMPDIR may be long. Where the
    config may mean something else at each moment only ssh can tell which socket that is: then `%C`, a hash of user,
    host, port and jump, stands in it. Raises RlxError as `socket_folder` does.
    """
    meaning = config_meaning()
    end = _TOKEN if meaning is None else _digest(f"{os.uname().nodename}\0{meaning}\0{destination}")[:_TOKEN_LENGTH]
    return f"{socket_folder()}/{_digest(config or '')[:8]}{end}"


def socket_path(config: str | None, destination: str) -> str | None:
    """The control path where the socket is known by name."""
    path = control_path(config, destination)
    return None if path.endswith(_TOKEN) else path


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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
