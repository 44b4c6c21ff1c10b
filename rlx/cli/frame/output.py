"""Print for commands: the answer on stdout, the narration on stderr, one JSON object for `--json`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from rlx.cli.frame.streams import laid_out, writes_utf8
from rlx.model.jsonable import to_jsonable
from rlx.secret_text import masked

if TYPE_CHECKING:
    from rich.console import Console

    from rlx.errors import ExitCode

JSON_SCHEMA_VERSION = 1
T = TypeVar("T")


_PATIENCE_S = 2.0
_quiet = False
_answered = False


def be_quiet() -> None:
    """Stop narration from now on (`rlx --quiet`). Answers and errors are no narration."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    return _quiet


def narrate(text: str) -> None:
    """A line for the person at the terminal; never part of the answer."""
    from rlx.terminal_text import printable

    if not _quiet:
        sys.stderr.write(laid_out(printable(text), sys.stderr) + "\n")
        sys.stderr.flush()


@contextmanager
def patience(doing: str = "waiting for the hosts …") -> Iterator[None]:
    """Tell a person at a terminal what takes so long, if it takes over two seconds."""
    if not sys.stderr.isatty():
        yield
        return
    import threading

    timer = threading.Timer(_PATIENCE_S, narrate, [doing])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def patiently(values: Iterator[T], doing: str) -> Iterator[T]:
    """Pass the values on, with patience until the first has come."""
    with patience(doing):
        first = list(islice(values, 1))
    yield from first
    yield from values


def print_text(text: str, *, wraps: bool = True) -> None:
    """A part of the answer, which may quote what hosts and logs say; not wrapped where lines are to be copied whole."""
    from rlx.terminal_text import printable

    print(laid_out(printable(text), sys.stdout, wraps=wraps))


def print_json(answer: Mapping[str, Any], *, verbatim: bool = False) -> None:
    """The answer as one JSON object on stdout. Keys are only ever added, so scripts may rely on them.

    Secrets in it are masked, but in a `verbatim` answer, whose files are to be launched as they are.
    """
    global _answered
    _answered = True
    document = {"schema_version": JSON_SCHEMA_VERSION, **to_jsonable(answer)}
    document = document if verbatim else masked(document)
    text = json.dumps(document, indent=2, ensure_ascii=not writes_utf8(), allow_nan=False)
    # JSON allows these characters, but a terminal obeys the first ones and no stream takes the last.
    sys.stdout.write(
        re.sub(
            "[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]",
            lambda found: f"\\u{ord(found[0]):04x}",
            text,
        )
        + "\n"
    )


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether a command line asks for `--json`; behind `--` it is a name like others."""
    return "--json" in takewhile(lambda argument: argument != "--", arguments)


def print_json_error(message: str, hint: str, code: ExitCode) -> None:
    """The answer of a command that failed, so that stdout holds one JSON object in every case.

    Not where the answer is there already: then only a drawing behind it failed.
    """
    if not _answered:
        with suppress(OSError):
            print_json({"error": message, "hint": hint, "exit": int(code)})


# A pipe has no width: what reads it wants each row on one line.
_PIPE_WIDTH = 400


def console() -> Console:
    """Rich console on stdout: honours NO_COLOR, plain and unwrapped when piped."""
    from rich.console import Console
    from rich.segment import Segment
    from rich.theme import Theme

    from rlx.cli.text.table_text import EXCLUDED
    from rlx.terminal_text import printable

    class SafeConsole(Console):
        """Escape sequences are those of rich, never of a text in a cell."""

        def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
            for part in super().render(*arguments, **options):
                yield part if part.control else Segment(printable(part.text), part.style)

    made = SafeConsole(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    made.push_theme(Theme({EXCLUDED: "" if made.no_color else "strike dim"}, inherit=False))
    return made
