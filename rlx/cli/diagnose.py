"""rlx diagnose: explain why a run failed, hangs or went wrong."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.options import RUNS
from rlx.cli.frame.output import patience, print_json, print_text
from rlx.errors import UsageError


def diagnose(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|LOGFILE]...",
            help="Arm, run name or id, or a log. Default: the latest launch.",
            autocompletion=RUNS,
        ),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of text, for an issue.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Explain why a run failed, hangs or went wrong.

    An invalid verdict of a run comes first, and so do metrics that were not finite to the end or too often. Then the
    first primary cause in the log, with line, meaning and fix, and what followed from it; then what exit code, clock
    and metrics add. A log is searched where it is: of a run on another host only lines that may explain it travel. Exit
    code: 0 · 14 the verdict of a run is invalid.
    """
    from rlx.api.diagnosing import diagnose_named, joined, outcome
    from rlx.cli.text.diagnose_text import as_answer, markdown_text, text_lines

    if as_markdown and as_json:
        raise UsageError("--md and --json exclude each other", "name one of them")
    with patience("reading the runs …"):
        found = diagnose_named(names or [])
    if as_json:
        print_json({"runs": [as_answer(one) for one in found]})
    elif as_markdown:
        print("\n\n".join(map(markdown_text, found)))
    else:
        for number, one in enumerate(found):
            print_text("\n" * (number > 0) + "\n".join(text_lines(one)))
    if problems := [one.problem for one in found if one.problem is not None]:
        raise joined(problems)
    raise typer.Exit(outcome(found))
