"""launch.sh from its template. Everything that a template prints is quoted for the shell, without exception."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING

from rlx.resources import templates_folder

if TYPE_CHECKING:
    from jinja2 import Environment


class Quoted(str):
    """Text that is shell syntax already."""

    __slots__ = ()


def render_template(name: str, script: object) -> str:
    """Fill in a template with `script`. Raises jinja2.UndefinedError for a name that `script` lacks."""
    return _environment().get_template(name).render(script=script)


def on_host(path: str) -> Quoted:
    """Write a host path as one shell word; `~/` is expanded on the host, whatever characters follow."""
    if path.startswith("~/"):
        return Quoted(f'"$HOME"/{shlex.quote(path[2:])}')
    return Quoted(shlex.quote(path))


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
