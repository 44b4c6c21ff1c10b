"""rlx logs: show or follow the log of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.ages import parse_age
from rlx.cli.frame.completion import RUNS
from rlx.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rlx.api.run_logs import Logs


def logs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Arm, run name or id. Default: the latest launch.", autocompletion=RUNS
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the runs end; Ctrl-C detaches.")] = False,
    lines: Annotated[int | None, typer.Option("-n", "--tail", min=0, help="Only the last N lines.")] = None,
    grep: Annotated[str | None, typer.Option(help="Only lines that match this regular expression (grep -E).")] = None,
    fixed: Annotated[bool, typer.Option("--fixed-strings", "-F", help="--grep looks for the very text.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Whole lines also for metrics, as into a pipe.")] = False,
    since: Annotated[str | None, typer.Option(help="Only what was written in the last 30s, 10m, 2h, 1d.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with the lines and the metrics.")] = False,
) -> None:
    """Show or follow the log of a run.

    Without RUN it means the runs of the latest launch, so `rlx logs --grep val-core` just works: on a terminal it shows
    the values of these metrics, by step and arm. Exit code 1 where --grep finds nothing. Control sequences of a log
    never reach the terminal, and following resumes after lost connections.
    """
    from rlx.api.run_logs import Logs
    from rlx.api.run_logs import logs as read_logs
    from rlx.cli.frame.output import narrate, patiently

    if as_json and follow:
        raise UsageError("--json is one object, and --follow has no end", "leave one of them out")
    since_s = parse_age(since) if since else None
    try:
        came = read_logs(
            names or None, follow=follow, lines=lines, grep=grep, fixed=fixed, since_s=since_s, tell=narrate
        )
        # Its host may well have answered: a run that waits for its devices has no line yet.
        came = Logs(came.runs, patiently(iter(came), "waiting for the log …"))
        found = _print(came, grep, fixed, follow, as_json, raw)
    except KeyboardInterrupt:
        if follow:
            narrate("\ndetached; the runs go on. Again: rlx logs -f · state: rlx status · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if grep is not None and not found:
        narrate(f"no line matches {grep}")
        raise typer.Exit(ExitCode.ERROR)


def _print(came: Logs, grep: str | None, fixed: bool, follow: bool, as_json: bool, raw: bool) -> bool:
    """Print the lines, or on a terminal the values that they hold. Returns whether there was any line."""
    from rlx.cli.frame.output import print_json
    from rlx.cli.text.log_text import log_answer, print_lines, print_values

    if as_json:
        answer = log_answer(came)
        print_json(answer)
        return bool(answer["lines"])
    if grep is not None and not raw and sys.stdout.isatty():
        return print_values(came, grep, fixed=fixed, at_once=follow)
    return print_lines(came, grep, fixed=fixed, at_once=follow)
