"""Run several scripts as one command: over a long line, or with many hosts, a channel costs more than the work."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from rlx.hosts.transport import Completed, Transport
from rlx.model import Cmd


@dataclass(frozen=True, slots=True)
class ScriptPart:
    """A POSIX sh script and its arguments. It reads nothing from stdin but its own here-documents."""

    script: bytes
    arguments: tuple[str, ...] = ()


def slim(script: str) -> bytes:
    """Return a script without comments and indentation, which need not travel.

    No line of a string may begin with a blank or `#` that counts.
    """
    return re.sub(r"^[ \t]*(#(?!!).*)?\n|^[ \t]+", "", script, flags=re.MULTILINE).encode()


def run_part(transport: Transport, part: ScriptPart, timeout_s: float) -> Completed:
    """Run a script alone. Raises HostError."""
    return transport.run(Cmd("sh", "-s", "--", *part.arguments), stdin=part.script, timeout_s=timeout_s)


def run_parts(transport: Transport, parts: Sequence[ScriptPart], timeout_s: float) -> list[Completed]:
    """Run one after the other in one shell of `transport`, whatever becomes of each. Raises HostError.

    A part that never ended, since the shell was killed, has the exit code of that shell.
    """
    mark = secrets.token_hex(16).encode()
    done = transport.run(Cmd("sh", "-s"), stdin=b"".join(_packed(part, mark) for part in parts), timeout_s=timeout_s)
    outs, errs = _split(done.out, mark), _split(done.err, mark)
    return [
        Completed(outs[i][0] if i < len(outs) else done.code, _text(outs, i), _text(errs, i)) for i in range(len(parts))
    ]


def _packed(part: ScriptPart, mark: bytes) -> bytes:
    """Pack it into a subshell: a shell of its own would have to be started, and given its script."""
    arguments = Cmd("set", "--", *part.arguments).raw().encode(errors="surrogateescape")
    end = b"code=$?\nprintf '%s %s\\n' MARK $code\nprintf '%s %s\\n' MARK $code >&2\n".replace(b"MARK", mark)
    return b"(\n%s\n%s\n)\n%s" % (arguments, part.script, end)


def _split(output: bytes, mark: bytes) -> list[tuple[int, bytes]]:
    """Return what came before each mark, with the exit code at that."""
    pieces = re.split(mark + rb" (\d{1,3})\n", output)
    return [(int(code), text) for text, code in zip(pieces[::2], pieces[1::2], strict=False)]


def _text(found: list[tuple[int, bytes]], position: int) -> bytes:
    return found[position][1] if position < len(found) else b""
