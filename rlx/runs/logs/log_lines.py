"""Log lines of a run, read on its host: only the lines asked for travel. logs.sh does the reading."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.hosts import transport_for
from rlx.model import LOCAL, Cmd
from rlx.resources import payload_folder
from rlx.runs import supervisor
from rlx.runs.logs.line_stream import split_lines

if TYPE_CHECKING:
    from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class LogQuery:
    """The lines to read: the last `lines` of those that contain `pattern`, at most `since_seconds` old.

    The pattern is an extended regular expression, or the very text if it is `fixed`.
    """

    lines: int | None = None
    pattern: str | None = None
    since_seconds: int | None = None
    fixed: bool = False

    @property
    def kind(self) -> str:
        """The name that logs.sh gives it."""
        if self.pattern is None:
            return "all"
        return "fixed" if self.fixed else "regex"

    def check(self) -> None:
        """Raises UsageError for a pattern that grep cannot read."""
        if self.pattern is None or self.fixed:
            return
        probe = transport_for(LOCAL).run(Cmd("grep", "-aE", "-e", self.pattern), stdin=b"", timeout_s=10)
        if probe.code > 1:
            reason = probe.err.decode(errors="replace").strip().removeprefix("grep: ")
            raise UsageError(
                f"--grep {self.pattern!r} is not a regular expression of grep -E: {reason}",
                "put a backslash before ( ) [ ] { } + ? * | . that are meant literally, or say -F",
            )


def read_log(ref: RunRef, query: LogQuery) -> Iterator[bytes]:
    """The lines there are now, without line ends. A run that has not started yet has none. Raises HostError."""
    with transport_for(ref.place).stream(log_command("read", ref, query, number(query.since_seconds))) as chunks:
        yield from split_lines(chunks)


def log_command(verb: str, ref: RunRef, query: LogQuery, *more: str) -> Cmd:
    """A call of logs.sh, which comes as an argument: a stream has no standard input."""
    asked = (query.kind, query.pattern or "", number(query.lines))
    return Cmd("sh", "-c", _script(), "rlx-logs", verb, ref.remote_dir, *asked, *more)


def number(value: int | None) -> str:
    return "" if value is None else str(value)


@cache
def _script() -> str:
    return supervisor.layout() + (payload_folder() / "logs.sh").read_text(encoding="utf-8")
