"""launch.sh from its template. Everything that the template prints is quoted for the shell, without exception."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.resources import templates_folder

if TYPE_CHECKING:
    from jinja2 import Environment

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


class Quoted(str):
    """Text that is shell syntax already."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Script:
    """What launch.sh is made of. Paths are paths on the host and may start with `~/`.

    With a `look`, a Python script, the text goes where launch.sh would start and runs that instead of the training.
    """

    title: str
    device: str
    python: str
    program: Sequence[str]
    arguments: Sequence[str]
    workdir: str | None
    data_files: Sequence[str]
    env: Mapping[str, str]
    path_prefix: Sequence[str]
    setup: Sequence[str] = ()
    look: Quoted | None = None


def render(script: Script) -> str:
    """The text of launch.sh."""
    return _environment().get_template("verl.sh.j2").render(script=script)


def on_host(path: str) -> Quoted:
    """A host path as one shell word; `~/` is expanded there, whatever characters follow."""
    if path.startswith("~/"):
        return Quoted(f'"$HOME"/{shlex.quote(path[2:])}')
    return Quoted(shlex.quote(path))


def program(entrypoint: str) -> tuple[str, ...]:
    """How Python is told what to run: a module, or a file of the working directory or anywhere on the host."""
    if entrypoint.endswith(".py"):
        return (entrypoint,)
    if not _MODULE.fullmatch(entrypoint):
        raise UsageError(
            f"backend.entrypoint: {entrypoint!r} is neither a module nor a Python file",
            "write a module such as verl.trainer.main_ppo, or a path that ends in .py",
        )
    return ("-m", entrypoint)


def _quoted(value: object) -> str:
    return value if isinstance(value, Quoted) else shlex.quote(str(value))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(templates_folder()),
        undefined=StrictUndefined,
        finalize=_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # shell, not HTML: finalize quotes
    )
    environment.filters["on_host"] = on_host
    return environment
