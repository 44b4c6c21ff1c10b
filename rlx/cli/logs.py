"""rlx logs: lines of one run, or of several, each marked with its arm."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.ages import parse_age
from rlx.errors import ExitCode

if TYPE_CHECKING:
    from rlx.api.run_logs import Logs
    from rlx.runs import RunRef


def logs(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Arm, run name or id. Default: the latest launch.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the runs end; Ctrl-C detaches.")] = False,
    lines: Annotated[int | None, typer.Option("-n", "--tail", min=0, help="Only the last N lines.")] = None,
    grep: Annotated[str | None, typer.Option(help="Only lines that match this regular expression (grep -E).")] = None,
    fixed: Annotated[bool, typer.Option("--fixed-strings", "-F", help="--grep looks for the very text.")] = False,
    since: Annotated[str | None, typer.Option(help="Only what was written in the last 30s, 10m, 2h, 1d.")] = None,
) -> None:
    """Show the log of a run.

    Without RUN it means the runs of the latest launch, so `rlx logs --grep val-core` just works.
    Control sequences of a log never reach the terminal, and a follow goes on through lost connections.
    """
    from rlx.api.run_logs import logs as read_logs
    from rlx.cli.frame.output import narrate

    since_s = parse_age(since) if since else None
    try:
        came = read_logs(
            names or None, follow=follow, lines=lines, grep=grep, fixed=fixed, since_s=since_s, tell=narrate
        )
        _print_lines(came, at_once=follow)
    except KeyboardInterrupt:
        if follow:
            narrate("\ndetached; the runs go on. Again: rlx logs -f · state: rlx status · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _print_lines(came: Logs, at_once: bool) -> None:
    """Each line whole, and marked with its run where there are several."""
    from rlx.cli.text.terminal_text import printable_lines

    marks = {ref.run_id: f"{_label(ref, came.runs)} | " if len(came.runs) > 1 else "" for ref in came.runs}
    for ref, line in came:
        mark = marks[ref.run_id]
        sys.stdout.write("".join(f"{mark}{part}\n" for part in printable_lines(line)))
        if at_once:
            sys.stdout.flush()


def _label(ref: RunRef, refs: Sequence[RunRef]) -> str:
    """The shortest name that tells the shown runs apart: arm, else arm and seed, else the id."""
    if len({other.arm for other in refs}) == len(refs):
        return ref.arm
    if len({(other.arm, other.seed) for other in refs}) == len(refs):
        return ref.short_name
    return ref.run_id
