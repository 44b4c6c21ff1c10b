"""The question which back-end a host has, and its answer: the back-end writes the one and reads the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NO_FOLDER = 90
NO_PYTHON = 91


@dataclass(frozen=True, slots=True)
class InstallationQuestion:
    """A bash script that goes where a run would start and answers there as `rlx/payload/config_tree.py` does.

    Its argument is `look` or `pack`. It exits with NO_FOLDER or NO_PYTHON where the run could not start for want of
    `folder` or `python`. `package` and `entrypoint` are what the run would import and execute.
    """

    script: str
    package: str
    entrypoint: str
    python: str
    folder: str | None


@dataclass(frozen=True, slots=True)
class Installation:
    """The back-end as one look found it. `where` is what people call the place: a host, or a container of it.

    `folder` is a local copy of its configuration files; None if they cannot be had, and `problem` says why. `missing`
    is what a run would fail at once for. `version` is "" where the back-end does not say. `model` is the text of the
    model's config.json, "" without one.
    """

    where: str
    version: str = ""
    folder: Path | None = None
    missing: str = ""
    problem: str = ""
    model: str = ""
