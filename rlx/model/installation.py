"""Describe the query which back-end a host has, and its answer: the back-end writes the one and reads the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NO_FOLDER = 90
NO_PYTHON = 91
NO_READER = 92


@dataclass(frozen=True, slots=True)
class InstallationQuestion:
    """A bash script that goes where a run would start and answers there as `rlx/payload/config_tree.py` does.

    Its arguments are `look` or `pack`, and `start` or `read`: without `may_start`, `python` is not started, and what
    is beside it is read with the host's own. It exits with NO_FOLDER or NO_PYTHON where the run could not start without
    `folder` or `python`, with NO_READER if the host has no Python of its own. `package` and `entrypoint` are
    what the run would import and execute.
    """

    script: str
    package: str
    entrypoint: str
    python: str
    folder: str | None
    may_start: bool = True


@dataclass(frozen=True, slots=True)
class Installation:
    """The back-end as one query found it. `where` is the name of the place: a host, or a container of it.

    `folder` is a local copy of its configuration files; None if they cannot be had, and `problem` says why. `missing`
    is what a run would fail at once for. `version` is "" where the back-end does not say. `model` is the text of the
    model's config.json, "" without one. `unasked` is the interpreter that was not started, "" if it was.
    """

    where: str
    version: str = ""
    folder: Path | None = None
    missing: str = ""
    problem: str = ""
    model: str = ""
    unasked: str = ""
