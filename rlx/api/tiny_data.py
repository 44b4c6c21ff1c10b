"""Make the tiny model and its data where a training will read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlx.api.data_place import refuse_relative
from rlx.api.telling import unheard
from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.hosts import Completed
    from rlx.model import Site

_MAKER = "tiny_addition.py"
_PACKAGES = ("torch", "transformers", "pyarrow")
_TIMEOUT_S = 600


def make_tiny_data(site: Site, to: str, *, force: bool = False, tell: Tell = unheard) -> dict[str, Any]:
    """Make the tiny model and its data in the folder `to` at that place, unless it is complete; `force` makes it anew.

    Returns the folder, and whether something was made. Raises UsageError for a relative path elsewhere, RlxError where
    packages are missing, or the folder holds something else.
    """
    from rlx.hosts.host_errors import reading_answer
    from rlx.hosts.sent_python import answer_of, place_text

    refuse_relative(site, "--to", to)
    where = place_text(site)
    tell(f"{where}: making {to} (seconds)")
    completed = _run(site, [to, *_PACKAGES, *(["--force"] if force else [])])
    answer = answer_of(completed.out, completed.err, completed.code, where)
    with reading_answer(where, "rlx data"):
        if "problem" in answer:
            raise _error(answer, where, completed)
        return {**answer, "folder": str(answer["folder"]), "made": bool(answer["made"])}


def _run(site: Site, arguments: list[str]) -> Completed:
    """The program rides in an argument, and what it is to run on stdin: nothing else is written."""
    from dataclasses import replace

    from rlx.hosts import transport_for
    from rlx.hosts.sent_python import python_here_or_there
    from rlx.resources import payload_folder

    program = (payload_folder() / "make_folder.py").read_text(encoding="utf-8")
    place = replace(site.place, inside=site.container) if site.container else site.place
    command = python_here_or_there(site, program, *arguments)
    return transport_for(place).run(command, stdin=(payload_folder() / _MAKER).read_bytes(), timeout_s=_TIMEOUT_S)


def _error(answer: dict[str, Any], where: str, completed: Completed) -> RlxError:
    from rlx.backends.registry import kinds
    from rlx.planning.rehearsal import rehearser_of

    if answer["problem"] == "packages":
        return RlxError(
            f"{where}: making a tiny model needs {answer['detail']}",
            rehearser_of(kinds()[0]).FIX,
        )
    if answer["problem"] == "foreign":
        return RlxError(
            f"{where}: {answer['folder']} holds something that rlx did not make",
            "name an empty or new folder with --to",
        )
    said = completed.err.decode(errors="replace").strip().splitlines()
    return RlxError(
        f"{where}: {answer['folder']} could not be made: {said[-1][:500] if said else answer['detail']}",
        "is there room in it, and may you write there? df -h, ls -ld",
    )
