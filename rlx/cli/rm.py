"""rlx rm: hide runs, such as those of a mistaken launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import NamedRunsArgument
from rlx.cli.frame.output import patience, print_json, print_text
from rlx.errors import UsageError

if TYPE_CHECKING:
    pass


def rm(
    names: NamedRunsArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; comparisons state it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Show hidden runs again.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also runs whose host does not answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Hide runs, such as those of a mistaken launch.

    Nothing is deleted (rlx prune does that), and the id still finds the run. Comparisons of its experiment state that
    it was hidden, by whom and with which verdict, and `rlx status -a` shows it.
    """
    from rlx.api.runs import remove, restore

    if undo:
        if reason or force:
            raise UsageError("--undo takes no other option", "rlx rm --undo RUN")
        with patience():
            refs = restore(names)
        if as_json:
            print_json({"restored": [ref.run_id for ref in refs]})
        else:
            print_text("\n".join(f"{ref.run_id} is back" for ref in refs))
        return
    from rlx.model import to_jsonable

    with patience():
        removed = remove(names, reason=reason, force=force)
    if as_json:
        print_json({"removed": [{**to_jsonable(each.hidden), "here_only": each.here_only or None} for each in removed]})
        return
    for each in removed:
        print_text(each.hidden.sentence + (f"; only on this machine: {each.here_only}" if each.here_only else ""))
