"""rlx waive: accept a finding of a finished run, with a reason and a name."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from rlx.cli.frame.options import RUNS
from rlx.cli.frame.output import patience, print_json, print_text
from rlx.errors import UsageError

_ID = re.compile(r"[A-Z]{2,}\d{3,}")


def waive(
    words: Annotated[
        list[str],
        typer.Argument(metavar="RUN... RLX...", help="Runs, and the ids of findings.", autocompletion=RUNS),
    ],
    because: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which every output shows.")] = "",
    by: Annotated[str, typer.Option(metavar="NAME", help="Who accepts it. Default: user and machine.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Remove the waivers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Accept a finding of a finished run, with a reason and a name.

    A waived finding no longer makes the run unverified. It is shown with reason, name and version of the rules by
    status -v, compare, report, every --json and in bundles. A contradiction between two records cannot be waived, nor
    what is missing, such as a step or a recipe.
    """
    from rlx.api.waiving import unwaive
    from rlx.api.waiving import waive as waive_findings
    from rlx.model import to_jsonable

    ids = [word for word in words if _ID.fullmatch(word)]
    runs = [name for word in words if word not in ids for name in word.split(",")]
    if not runs:
        raise UsageError("waive it for which run?", "rlx waive RUN RLX705 --because TEXT")
    if undo and (because or by):
        raise UsageError("--undo takes no other option", "rlx waive RUN RLX705 --undo")
    with patience():
        found = unwaive(runs, ids) if undo else waive_findings(runs, ids, because=because, by=by)
    if as_json:
        print_json({"runs": to_jsonable(found)})
        return
    for each in found:
        print_text(f"{each.run_id}  {each.sentence}")
