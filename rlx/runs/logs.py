"""Log lines of a run, read on its host: only the lines asked for travel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.hosts import transport_for
from rlx.plan import LOCAL, Cmd

if TYPE_CHECKING:
    from rlx.runs.run import RunRef

# $1 run directory, $2 lines from the end ("" = all), $3 pattern ("" = every line), $4 seconds back ("" = any age)
_READ = r"""
run=$1 lines=$2 pattern=$3 since=$4 from=0
log=$run/latest/log
[ -e "$log" ] || exit 3
# The supervisor notes every few seconds how long the log was; that dates lines which carry no time themselves.
[ -z "$since" ] || from=$(awk -v limit="$(($(date +%s) - since))" '$1 <= limit { at = $2 } END { print at + 0 }' \
    "$run/latest/state/clock" 2>/dev/null || echo 0)
pick() { if [ -n "$pattern" ]; then LC_ALL=C grep -aE -e "$pattern"; else cat; fi; }
last() { if [ -n "$lines" ]; then tail -n "$lines"; else cat; fi; }
if [ "$from" -gt 0 ]; then tail -c "+$((from + 1))" "$log" | pick | last
elif [ -n "$pattern" ]; then pick < "$log" | last
elif [ -n "$lines" ]; then tail -n "$lines" "$log"
else cat "$log"; fi
"""

_FOLLOW = r"""
run=$1 lines=$2 pattern=$3
pick() { if [ -n "$pattern" ]; then LC_ALL=C grep -aE --line-buffered -e "$pattern"; else cat; fi; }
{
    # -F waits for the log of a run that is still queued.
    tail -n "${lines:-+1}" -F "$run/latest/log" 2>/dev/null &
    tail=$!
    # A reader that is gone shows only at the next line, and a queued run may not write one for days.
    until [ -e "$run/latest/state/exit" ] || ! kill -0 "$PPID" 2>/dev/null; do
        kill -0 "$tail" 2>/dev/null || exit
        sleep 0.5
    done
    sleep 1 # what was written last may still be on its way through tail
    kill "$tail" 2>/dev/null
} | pick
"""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines: the last `lines` of those that match `pattern` (ERE) and are at most `since_seconds` old."""

    lines: int | None = None
    pattern: str | None = None
    since_seconds: int | None = None

    def check(self) -> None:
        """Raises UsageError for a pattern that grep cannot read."""
        if self.pattern is None:
            return
        probe = transport_for(LOCAL).run(Cmd("grep", "-aE", "-e", self.pattern), stdin=b"", timeout_s=10)
        if probe.code > 1:
            reason = probe.err.decode(errors="replace").strip().removeprefix("grep: ")
            raise UsageError(
                f"--grep {self.pattern!r} is not a regular expression of grep -E: {reason}",
                "put a backslash before ( ) [ ] { } + ? * | . that are meant literally",
            )


def read_log(ref: RunRef, query: LogQuery) -> Iterator[bytes]:
    """The lines there are now, without line ends. A run that has not started yet has none."""
    arguments = (str(ref.run_dir), _text(query.lines), query.pattern or "", _text(query.since_seconds))
    return _lines_of(ref, Cmd("sh", "-c", _READ, "rlx-logs", *arguments))


def follow_log(ref: RunRef, query: LogQuery) -> Iterator[bytes]:
    """The lines there are and those that come, until the run's end is recorded."""
    arguments = (str(ref.run_dir), _text(query.lines), query.pattern or "")
    return _lines_of(ref, Cmd("sh", "-c", _FOLLOW, "rlx-logs", *arguments))


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _lines_of(ref: RunRef, command: Cmd) -> Iterator[bytes]:
    with transport_for(ref.place).stream(command) as chunks:
        yield from split_lines(chunks)


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Whole lines of a stream of chunks; a last line without an end counts too."""
    # A line of many chunks is put together once, at its end: doing so at every chunk takes time by its square.
    begun: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            yield from others[:-1]
            begun = [others[-1]]
    if rest := b"".join(begun):
        yield rest
