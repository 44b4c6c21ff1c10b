"""`rlx data`: make the small data sets and models that the shipped recipes name, where they are to be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.site import ContainerOption, HostOption
from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.hosts import Completed
    from rlx.plan import Site

TINY_CPU_FOLDER = "~/.cache/rlx/tiny-cpu"
MAKERS = {"tiny-cpu": "tiny_addition.py"}
PACKAGES = ("torch", "transformers", "pyarrow")
_TIMEOUT_S = 600


def data(
    name: Annotated[str, typer.Argument(help="What to make: tiny-cpu.")],
    host: HostOption = None,
    container: ContainerOption = None,
    to: Annotated[str, typer.Option(help="The folder to write; the recipe names the default.")] = TINY_CPU_FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Make it again even if it is complete.")] = False,
) -> None:
    """Make the model and data of a shipped recipe.

    They are made where the training will read them: here, on the host, or in its container. Prints the folder. What is
    complete already is left alone.
    """
    from rlx.cli.output import narrate
    from rlx.hosts import site_of

    if name not in MAKERS:
        raise UsageError(f"unknown data set {name!r}", f"known: {', '.join(MAKERS)}")
    site = site_of(host or "local", container)
    if not _is_here(site) and not to.startswith(("/", "~/")):
        raise UsageError(f"--to {to} is not a full path on {site.host}", "begin it with / or ~/")
    where = f"{site.host}, container {site.container}" if site.container else site.host
    narrate(f"{where}: making {to} (seconds)")
    answer = _made(site, MAKERS[name], to, force, where)
    if not answer["made"]:
        narrate(f"{answer['folder']} is complete")
    print(answer["folder"])


def _is_here(site: Site) -> bool:
    return site.place.is_local and not site.container


def _made(site: Site, maker: str, to: str, force: bool, where: str) -> dict[str, Any]:
    import json

    completed = _run(site, maker, [to, *PACKAGES, *(["--force"] if force else [])])
    try:
        answer: dict[str, Any] = json.loads(completed.out)
    except ValueError:
        said = completed.err.decode(errors="replace").strip().splitlines() or [f"exit {completed.code}"]
        raise RlxError(f"{where}: {said[-1]}", "is python3 there? rlx doctor tells") from None
    if "problem" in answer:
        raise _error(answer, where, completed)
    return answer


def _run(site: Site, maker: str, arguments: list[str]) -> Completed:
    """The program rides in an argument, and what it is to run on stdin: nothing else is written."""
    import sys
    from dataclasses import replace

    from rlx.hosts import transport_for
    from rlx.plan import Cmd
    from rlx.resources import payload_folder

    program = (payload_folder() / "make_folder.py").read_text(encoding="utf-8")
    place = replace(site.place, inside=site.container) if site.container else site.place
    command = Cmd(sys.executable if _is_here(site) else "python3", "-c", program, *arguments)
    return transport_for(place).run(command, stdin=(payload_folder() / maker).read_bytes(), timeout_s=_TIMEOUT_S)


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
