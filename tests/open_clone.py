"""A view of this clone that is open to every user of the machine, wherever it lies: below root's closed home, say."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import REPOSITORY

_SOURCES = ("rlx", "recipes", "templates", "docs", "tests")
_OTHERS_MAY_ENTER = 0o001


def run_python(code: str, stage: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the code as root, who may become somebody else in it and still import rlx, the tests and the environment.

    Every folder is where it always was, but in a mount namespace in which nobody is kept out of the folders above.
    `stage`: an empty folder.
    """
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", "\n".join(_steps(stage)), "sh", sys.executable, "-c", code],
        cwd="/",
        env={**os.environ, **environment, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )


def _steps(stage: Path) -> list[str]:
    """Set aside what is needed, cover the closed folders, and put it back. The sources are copied: a umask of 077
    at the time of the clone closed each file."""
    folders = [REPOSITORY, *{Path(sys.prefix), Path(sys.base_prefix)} - {Path("/usr")}]
    aside = {folder: shlex.quote(str(stage / str(number))) for number, folder in enumerate(folders)}
    steps = ["mount --make-rprivate /"]
    for folder in folders:
        steps += [f"mkdir {aside[folder]}", f"mount --rbind {shlex.quote(str(folder))} {aside[folder]}"]
    closed = {each for folder in folders if (each := _outermost_closed(folder))}
    steps += [f"mount -t tmpfs -o mode=755 none {shlex.quote(str(folder))}" for folder in closed]
    for folder in (folder for folder in folders if _outermost_closed(folder)):
        place = shlex.quote(str(folder))
        steps += [f"mkdir -p {place}"]
        steps += _copied(aside[folder], place) if folder == REPOSITORY else [f"mount --rbind {aside[folder]} {place}"]
    return [*steps, 'exec "$@"']


def _copied(source: str, place: str) -> list[str]:
    names = [name for name in _SOURCES if (REPOSITORY / name).exists()]
    return [*(f"cp -r {source}/{name} {place}" for name in names), f"chmod -R a+rX {place}"]


def _outermost_closed(folder: Path) -> Path | None:
    """The first folder on the way there, or the folder itself, that only its owner may enter."""
    way = [*reversed(folder.parents), folder]
    return next((each for each in way if not each.stat().st_mode & _OTHERS_MAY_ENTER), None)
