"""A host whose user is not the owner of the runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SHELL = """#!/bin/dash
[ "$(id -u)" = 65534 ] && exec dash "$@"
exec setpriv --reuid 65534 --regid 65534 --clear-groups dash "$@"
"""


@contextmanager
def commands_as_nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every `sh` that rlx starts on this machine is nobody's. Yields a folder that nobody may enter."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    # Outside of the folders of pytest, which are closed to others.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shell = folder / "bin" / "sh"
        shell.parent.mkdir()
        shell.write_text(_SHELL, encoding="utf-8")
        shell.chmod(0o755)
        monkeypatch.setenv("PATH", f"{shell.parent}:{os.environ['PATH']}")
        yield folder
