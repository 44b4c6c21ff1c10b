"""rlx tag: tag runs, or attach a note."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.options import RUNS, TAGS
from rlx.cli.frame.output import print_json, print_text
from rlx.errors import UsageError


def tag(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Arm, run name or id; several with commas.", autocompletion=RUNS),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...", help="Tags: letters, digits, _, . and -. Default: show them.", autocompletion=TAGS
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tags instead.")] = False,
    note: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A note that replaces the last one; '' removes it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Tag runs, or attach a note.

    `rlx status` shows tags, with -v notes, and finds runs by them: --where tag=keep. Both stay on this machine and
    never enter a verdict. Any run can have them, also one tracked or imported.
    """
    from rlx.api.runs import tag as tag_runs
    from rlx.cli.text.run_text import label_text

    if remove and not words:
        raise UsageError("remove which tags?", "name them: rlx tag RUN WORD --remove")
    given = words or []
    add, unwanted = ([], given) if remove else (given, [])
    labelled = tag_runs(run.split(","), add, remove=unwanted, note=note)
    if as_json:
        runs = [{"run_id": ref.head_id, "tags": label.tags, "note": label.note or None} for ref, label in labelled]
        print_json({"runs": runs})
        return
    for ref, label in labelled:
        print_text(f"{ref.head_id}  {label_text(label)}")
