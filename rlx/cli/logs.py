"""rlx logs: lines of one run, or of several, each marked with its arm."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rlx.runs import RunRef
    from rlx.runs.logs import LogQuery

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def logs(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Arm, run name or id. Default: the latest launch.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the runs end; Ctrl-C detaches.")] = False,
    lines: Annotated[int | None, typer.Option("-n", "--tail", min=0, help="Only the last N lines.")] = None,
    grep: Annotated[str | None, typer.Option(help="Only lines that match this regular expression (grep -E).")] = None,
    since: Annotated[str | None, typer.Option(help="Only what was written in the last 30s, 10m, 2h, 1d.")] = None,
) -> None:
    """Show the log of a run.

    Without RUN it means the runs of the latest launch, so `rlx logs --grep val-core` just works.
    Control sequences of a log never reach the terminal.
    """
    from rlx.cli.output import narrate
    from rlx.cli.selection import runs_or_latest
    from rlx.runs.logs import LogQuery, follow_log, read_log

    if follow and since:
        raise UsageError("--since and --follow do not go together", "use -n N to say how far back a follow begins")
    query = LogQuery(lines, grep, parse_age(since) if since else None)
    query.check()
    refs = runs_or_latest(names)
    if not follow:
        for ref in refs:
            _print_lines(ref, refs, read_log(ref, query))
        return
    try:
        _follow_all(refs, query, follow_log)
    except KeyboardInterrupt:
        narrate("\ndetached; the runs go on. Again: rlx logs -f · state: rlx status · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def parse_age(text: str) -> int:
    """Seconds of `30s`, `10m`, `2h`, `1d` or a bare number of seconds. Raises UsageError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is not a length of time", "write it as 30s, 10m, 2h or 1d")
    return int(number) * _UNITS[unit]


def _print_lines(ref: RunRef, refs: Sequence[RunRef], lines: Iterator[bytes]) -> None:
    from rlx.cli.terminal_text import printable_lines

    mark = f"{_label(ref, refs)} | " if len(refs) > 1 else ""
    for line in lines:
        sys.stdout.write("".join(f"{mark}{part}\n" for part in printable_lines(line)))
        sys.stdout.flush()


def _label(ref: RunRef, refs: Sequence[RunRef]) -> str:
    """The shortest name that tells the shown runs apart: arm, else arm and seed, else the id."""
    if len({other.arm for other in refs}) == len(refs):
        return ref.arm
    if len({(other.arm, other.seed) for other in refs}) == len(refs):
        return f"{ref.arm}-s{ref.seed}"
    return ref.run_id


def _follow_all(
    refs: Sequence[RunRef], query: LogQuery, follow_log: Callable[[RunRef, LogQuery], Iterator[bytes]]
) -> None:
    """One thread a run; a line is written whole, so lines of two runs never mix."""
    from threading import Thread

    threads = [
        Thread(target=_print_lines, args=(ref, refs, follow_log(ref, query)), daemon=True, name=ref.run_id)
        for ref in refs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():  # a plain join() would hold back Ctrl-C
            thread.join(0.2)
