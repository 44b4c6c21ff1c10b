"""Print for commands: the answer on stdout, progress messages on stderr, one JSON object for `--json`."""

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
    """Suppress progress messages from now on (`rlx --quiet`), but no answers and errors."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    return _quiet


def narrate(text: str) -> None:
    """Print a progress message or a hint on stderr; it is never part of the answer."""
    from rlx.terminal_text import printable

    if not _quiet:
        sys.stderr.write(laid_out(printable(text), sys.stderr) + "\n")
        sys.stderr.flush()


@contextmanager
def patience(doing: str = "waiting for the hosts …") -> Iterator[None]:
    """Say on a terminal what is being done, if it takes over two seconds."""
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
    """Yield the values, with `patience` until the first has come."""
    with patience(doing):
        first = list(islice(values, 1))
    yield from first
    yield from values


def print_text(text: str, *, wraps: bool = True) -> None:
    """Print a part of the answer, made printable since it may quote hosts and logs.

    Without `wraps`, long lines stay whole, so that they can be copied.
    """
    from rlx.terminal_text import printable

    print(laid_out(printable(text), sys.stdout, wraps=wraps))


def print_json(answer: Mapping[str, Any], *, verbatim: bool = False) -> None:
    """Print the answer as one JSON object. Keys are only ever added, so scripts may rely on them.

    Secrets are masked, except in a `verbatim` answer, whose files are launched as they are.
    """
    global _answered
    _answered = True
    document = {"schema_version": JSON_SCHEMA_VERSION, **to_jsonable(answer)}
    document = document if verbatim else masked(document)
    text = json.dumps(document, indent=2, ensure_ascii=not writes_utf8(), allow_nan=False)
    # JSON allows these characters, but terminals interpret the first ones and streams refuse the last.
    sys.stdout.write(
        re.sub(
            "[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]",
            lambda found: f"\\u{ord(found[0]):04x}",
            text,
        )
        + "\n"
    )


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether a command line has `--json`; after `--` it would be a name."""
    return "--json" in takewhile(lambda argument: argument != "--", arguments)


def print_json_error(message: str, hint: str, code: ExitCode) -> None:
    """Print the error of a command as JSON, so that stdout holds one JSON object in every case.

    Print nothing if the answer was printed before: then only a drawing after it failed.
    """
    if not _answered:
        with suppress(OSError):
            print_json({"error": message, "hint": hint, "exit": int(code)})


# Into a pipe each row is one line.
_PIPE_WIDTH = 400


def console() -> Console:
    """Return a rich console on stdout that honours NO_COLOR; into a pipe it is plain and does not wrap."""
    from rich.console import Console
    from rich.segment import Segment
    from rich.theme import Theme

    from rlx.cli.text.table_text import EXCLUDED
    from rlx.terminal_text import printable

    class SafeConsole(Console):
        """Writes only the escape sequences of rich, never those of a text in a cell, and cuts no long word."""

        def print(self, *objects: Any, crop: bool = False, **options: Any) -> None:
            super().print(*objects, crop=crop, **options)

        def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
            for part in super().render(*arguments, **options):
                yield part if part.control else Segment(printable(part.text), part.style)

    made = SafeConsole(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    made.push_theme(Theme({EXCLUDED: "" if made.no_color else "strike dim"}, inherit=False))
    return made
