"""Fill in the template of verl's launch.sh."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlx.backends.shared.shell import Quoted, render_template
from rlx.errors import UsageError

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Script:
    """The parts of launch.sh. Paths are paths on the host and may start with `~/`.

    `post`: after a training that ended with 0 its last checkpoint is evaluated.
    """

    title: str
    device: str
    python: str
    program: Sequence[str]
    arguments: Sequence[str]
    workdir: str | None
    model: str
    data_files: Sequence[str]
    env: Mapping[str, str]
    path_prefix: Sequence[str]
    setup: Sequence[str] = ()
    nodes: int = 1
    post: bool = False
    track: Sequence[tuple[str, Quoted | None]] = ()


def render(script: Script) -> str:
    """The text of launch.sh."""
    return render_template("verl.sh.j2", script)


def program(entrypoint: str) -> tuple[str, ...]:
    """Tell Python what to run: a module, or a file of the working directory or anywhere on the host."""
    if entrypoint.endswith(".py"):
        return (entrypoint,)
    if not _MODULE.fullmatch(entrypoint):
        raise UsageError(
            f"backend.entrypoint: {entrypoint!r} is neither a module nor a Python file",
            "write a module such as verl.trainer.main_ppo, or a path that ends in .py",
        )
    return ("-m", entrypoint)
