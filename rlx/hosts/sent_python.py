"""Run modules of the payload by the Python of a host or container: they go by stdin, and nothing is written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError
from rlx.local_files import parse_json
from rlx.model import Cmd
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.model import Place, Site

# Runs the program in the argument after it. Python puts the folder that it is started in on its path, where another
# json.py would come before its own; -I, which leaves that out, would leave out what CANN's scripts export, too.
BARE_PATH = "import sys; sys.path[:] = filter(None, sys.path); exec(compile(sys.argv.pop(1), 'sent', 'exec'))"


def python_here_or_there(site: Site, program: str, *arguments: str) -> Cmd:
    """Return the command that runs a program by the Python of a place; its folder is not on the path of imports."""
    return Cmd(sys.executable if is_here(site) else "python3", "-c", BARE_PATH, program, *arguments)


def is_here(site: Site) -> bool:
    return site.place.is_local and not site.container


def place_text(site: Site) -> str:
    return f"{site.host}, container {site.container}" if site.container else site.host


def run_sent(site: Site, modules: Sequence[str | Path], order: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return what `main(order)` of the last module answers; the others are those that it imports, in order.

    A name is that of a common module of the payload, dotted for one that rlx imports, too; a path one of a back-end's.

    Raises HostError for a host that cannot be asked, RlxError where there is no Python, or it fails.
    """
    from rlx.hosts import transport_for

    place = replace(site.place, inside=site.container) if site.container else site.place
    command = python_here_or_there(site, _module("run_sent")[1])
    completed = transport_for(place).run(command, stdin=_packed(modules, order), timeout_s=timeout_s)
    return answer_of(completed.out, completed.err, completed.code, place_text(site))


def run_sent_to(
    place: Place, modules: Sequence[str | Path], order: Mapping[str, Any], timeout_s: float
) -> dict[str, Any]:
    """Do the same by the `python3` of a place that has runs. Raises as `run_sent` does."""
    from rlx.hosts import transport_for

    command = Cmd("python3", "-c", BARE_PATH, _module("run_sent")[1])
    completed = transport_for(place).run(command, stdin=_packed(modules, order), timeout_s=timeout_s)
    return answer_of(completed.out, completed.err, completed.code, place.host)


def _packed(modules: Sequence[str | Path], order: Mapping[str, Any]) -> bytes:
    return json.dumps({"modules": [_module(module) for module in modules], "order": order}).encode()


def answer_of(out: bytes, err: bytes, code: int, where: str) -> dict[str, Any]:
    """Read the one JSON object that a program there prints. Raises RlxError with its last words for anything else."""
    try:
        answer = parse_json(out)
        if isinstance(answer, dict):
            return answer
    except ValueError:
        pass
    said = err.decode(errors="replace").strip().splitlines() or [f"exit {code}, and its answer makes no sense"]
    raise RlxError(f"{where}: {said[-1][:500]}", "is python3 there? check with rlx doctor")


def _module(module: str | Path) -> tuple[str, str]:
    """Its name and its text."""
    if isinstance(module, Path):
        return module.stem, module.read_text(encoding="utf-8")
    return module, (payload_folder() / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8")
