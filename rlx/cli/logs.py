"""rlx logs: lines of one run, or of several, each marked with its arm."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.plan import RunState

if TYPE_CHECKING:
    from queue import Queue

    from rlx.runs import Index, RunRef
    from rlx.runs.logs.log_lines import LogQuery

    _Came = tuple[str, bytes | Exception | None]
    """A run id with a line of its log, with what went wrong, or with None: no more lines will come."""

_LINES_AHEAD = 1000
_QUIET_SECONDS = 2.0
_LONG_QUIET_SECONDS = 15.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.cli.frame.output import narrate
    from rlx.runs.logs.log_lines import LogQuery

    if follow and since:
        raise UsageError("--since and --follow do not go together", "use -n N to say how far back a follow begins")
    if fixed and grep is None:
        raise UsageError("-F says how --grep looks, and there is none", "rlx logs -F --grep TEXT")
    query = LogQuery(lines, grep, parse_age(since) if since else None, fixed)
    query.check()
    index = open_index()
    refs = runs_or_latest(index, names)
    _copy_adopted(refs)
    try:
        failures = _follow_all(index, refs, query) if follow else _read_all(refs, query)
    except KeyboardInterrupt:
        if follow:
            narrate("\ndetached; the runs go on. Again: rlx logs -f · state: rlx status · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if failures:
        raise _joined(failures)


def _copy_adopted(refs: Sequence[RunRef]) -> None:
    """Copy the logs of adopted runs, which are read here; a follow repeats it whenever it is quiet."""
    from rlx.cli.frame.output import narrate
    from rlx.runs.adopted.log_copy import refresh_all

    for _, problem in refresh_all(refs).values():
        if problem is not None:
            narrate(f"rlx: {problem.message}; from the copy made before")


def _joined(failures: Sequence[RlxError]) -> RlxError:
    """One error for all logs that could not be read; each reason once."""
    messages = dict.fromkeys(failure.message for failure in failures)
    return RlxError("\n".join(messages), failures[0].hint, failures[0].exit_code)


def _read_all(refs: Sequence[RunRef], query: LogQuery) -> list[RlxError]:
    """One run that cannot be read keeps no other from being shown."""
    from rlx.runs.logs.log_lines import read_log

    failures = []
    for ref in refs:
        try:
            _print_lines(_mark(ref, refs), read_log(ref, query))
        except RlxError as error:
            failures.append(error)
    return failures


def parse_age(text: str) -> int:
    """Seconds of `30s`, `10m`, `2h`, `1d` or a bare number of seconds. Raises UsageError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is not a length of time", "write it as 30s, 10m, 2h or 1d")
    return int(number) * _UNITS[unit]


def _print_lines(mark: str, lines: Iterator[bytes]) -> None:
    from rlx.cli.text.terminal_text import printable_lines

    for line in lines:
        sys.stdout.write("".join(f"{mark}{part}\n" for part in printable_lines(line)))


def _mark(ref: RunRef, refs: Sequence[RunRef]) -> str:
    """Write what stands before each line of a run; nothing where there is only one."""
    return f"{_label(ref, refs)} | " if len(refs) > 1 else ""


def _label(ref: RunRef, refs: Sequence[RunRef]) -> str:
    """The shortest name that tells the shown runs apart: arm, else arm and seed, else the id."""
    if len({other.arm for other in refs}) == len(refs):
        return ref.arm
    if len({(other.arm, other.seed) for other in refs}) == len(refs):
        return ref.short_name
    return ref.run_id


def _follow_all(index: Index, refs: Sequence[RunRef], query: LogQuery) -> list[RlxError]:
    """One thread a run reads, this one writes: a line is written whole, and a closed pipe ends the command."""
    from queue import Empty, Queue

    came: Queue[_Came] = Queue(_LINES_AHEAD)
    for ref in refs:
        _in_background(_read_into, came, ref, query)
    marks = {ref.run_id: _mark(ref, refs) for ref in refs}
    going, quiet_s, failures = set(marks), _QUIET_SECONDS, list[RlxError]()
    while going:
        try:
            run_id, found = came.get(timeout=quiet_s)
        except Empty:
            # Beside the reading: a host that does not answer must not hold up the lines of the others.
            _in_background(_end_if_lost, came, index, [ref for ref in refs if ref.run_id in going])
            quiet_s = min(_LONG_QUIET_SECONDS, 2 * quiet_s)
            continue
        if isinstance(found, bytes):
            quiet_s = _QUIET_SECONDS
            _print_lines(marks[run_id], iter([found]))
            sys.stdout.flush()
            continue
        going.discard(run_id)
        if isinstance(found, RlxError):
            failures.append(found)
        elif found is not None:
            raise found
    return failures


def _in_background(work: Callable[..., None], *arguments: object) -> None:
    from threading import Thread

    Thread(target=work, args=arguments, daemon=True).start()


def _read_into(came: Queue[_Came], ref: RunRef, query: LogQuery) -> None:
    """The lines of one run, then None or what went wrong."""
    from rlx.cli.frame.output import narrate
    from rlx.runs.logs.follow import follow_log

    try:
        for line in follow_log(ref, query, lambda text: narrate(f"rlx: {text}")):
            came.put((ref.run_id, line))
    except Exception as problem:  # noqa: BLE001 - goes on in the thread that shows it
        came.put((ref.run_id, problem))
    else:
        came.put((ref.run_id, None))


def _end_if_lost(came: Queue[_Came], index: Index, refs: Sequence[RunRef]) -> None:
    """A lost run records no end, so its log has none either; nor has that of a run that rlx did not start."""
    from rlx.runs import look
    from rlx.runs.adopted.log_source import is_adopted

    seen = look(index, refs)
    for ref in refs:
        state = seen[ref.run_id].state
        if state is RunState.LOST or (state.is_terminal and is_adopted(ref)):
            came.put((ref.run_id, None))
