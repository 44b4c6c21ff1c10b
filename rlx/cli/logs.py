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

_LINES_AHEAD = 1000
_QUIET_SECONDS = 2.0
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
            _print_lines(_mark(ref, refs), read_log(ref, query))
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


def _print_lines(mark: str, lines: Iterator[bytes]) -> None:
    from rlx.cli.terminal_text import printable_lines

    for line in lines:
        sys.stdout.write("".join(f"{mark}{part}\n" for part in printable_lines(line)))


def _mark(ref: RunRef, refs: Sequence[RunRef]) -> str:
    """What stands before each line of a run; nothing where there is only one."""
    return f"{_label(ref, refs)} | " if len(refs) > 1 else ""


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
    """One thread a run reads, this one writes: a line is written whole, and a closed pipe ends the command."""
    from queue import Empty, Queue
    from threading import Thread

    from rlx.runs import observe

    came: Queue[tuple[str, bytes | None]] = Queue(_LINES_AHEAD)

    def read(ref: RunRef) -> None:
        try:
            for line in follow_log(ref, query):
                came.put((_mark(ref, refs), line))
        finally:
            came.put(("", None))

    for ref in refs:
        Thread(target=read, args=(ref,), daemon=True, name=ref.run_id).start()
    going = len(refs)
    while going:
        try:
            mark, line = came.get(timeout=_QUIET_SECONDS)
        except Empty:
            # A lost run records no end.
            if all(seen.state.is_terminal for seen in observe(refs).values()):
                return
            continue
        if line is None:
            going -= 1
            continue
        _print_lines(mark, iter([line]))
        sys.stdout.flush()
