"""`rlx data tiny-cpu`: the tiny model and its data, made where they are to be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.site_options import ContainerOption, HostOption
from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.hosts import Completed
    from rlx.plan import Site

TINY_CPU_FOLDER = "~/.cache/rlx/tiny-cpu"
MAKER = "tiny_addition.py"
PACKAGES = ("torch", "transformers", "pyarrow")
_TIMEOUT_S = 600


def tiny_cpu(
    host: HostOption = None,
    container: ContainerOption = None,
    to: Annotated[str, typer.Option(help="The folder to write; the recipe names the default.")] = TINY_CPU_FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Make it again even if it is complete.")] = False,
) -> None:
    """Make the tiny model and its data.

    They are made where the training will read them: here, on the host, or in its container. Prints the folder. What is
    complete already is left alone.
    """
    from rlx.cli.data.data_place import data_site, refuse_relative
    from rlx.cli.frame.output import narrate
    from rlx.hosts.sent_python import place_text

    site = data_site(host, container)
    refuse_relative(site, "--to", to)
    where = place_text(site)
    narrate(f"{where}: making {to} (seconds)")
    answer = _made(site, to, force, where)
    if not answer["made"]:
        narrate(f"{answer['folder']} is complete")
    print(answer["folder"])


def _made(site: Site, to: str, force: bool, where: str) -> dict[str, Any]:
    import json

    completed = _run(site, [to, *PACKAGES, *(["--force"] if force else [])])
    try:
        answer: dict[str, Any] = json.loads(completed.out)
    except ValueError:
        said = completed.err.decode(errors="replace").strip().splitlines() or [f"exit {completed.code}"]
        raise RlxError(f"{where}: {said[-1]}", "is python3 there? rlx doctor tells") from None
    if "problem" in answer:
        raise _error(answer, where, completed)
    return answer


def _run(site: Site, arguments: list[str]) -> Completed:
    """The program rides in an argument, and what it is to run on stdin: nothing else is written."""
    import sys
    from dataclasses import replace

    from rlx.hosts import transport_for
    from rlx.hosts.sent_python import is_here
    from rlx.plan import Cmd
    from rlx.resources import payload_folder

    program = (payload_folder() / "make_folder.py").read_text(encoding="utf-8")
    place = replace(site.place, inside=site.container) if site.container else site.place
    command = Cmd(sys.executable if is_here(site) else "python3", "-c", program, *arguments)
    return transport_for(place).run(command, stdin=(payload_folder() / MAKER).read_bytes(), timeout_s=_TIMEOUT_S)


def _error(answer: dict[str, Any], where: str, completed: Completed) -> RlxError:
    if answer["problem"] == "packages":
        return RlxError(
            f"{where}: making a tiny model needs {answer['detail']}",
            "pip install torch==2.13.0 (a CPU build), then pip install 'rlx[verl-cpu]'",
        )
    if answer["problem"] == "foreign":
        return RlxError(
            f"{where}: {answer['folder']} holds something that rlx did not make",
            "name an empty or new folder with --to",
        )
    said = completed.err.decode(errors="replace").strip()
    return RlxError(f"{where}: {answer['detail']}", said[-2000:] or "nothing more was said")
