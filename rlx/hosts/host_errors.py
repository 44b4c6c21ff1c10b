"""Define the errors on the way to a host. Each names the host, the masked command and the way out.

HostError            the host did not do what was asked (exit 4)
├── Unreachable      no connection came about
├── HostKeyUnknown   it is not confirmed yet that this key is the host's
├── HostKeyChanged   the host shows another key than the known one
├── AccessDenied     the host does not let this user in
├── ConnectionLost   the connection broke while the command ran
├── TimedOut         the command took too long
├── TooMuch          the host answers without end
├── Garbled          the host answered what makes no sense
└── ContainerGone    the container is not there, is not running, or this user may not enter it
ToolMissing          this machine lacks the program that connects (exit 1)
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rlx.errors import ExitCode, RlxError

_PAUSE_S = 0.7


class HostError(RlxError):
    """`arrived`: the command may have reached the host; False if it certainly did not.

    `was_turned_away`: the host had too many connections that were not logged in yet, and may have room a moment later.
    """

    exit_code = ExitCode.UNREACHABLE
    arrived = False
    was_turned_away = False


class Unreachable(HostError):
    pass


class HostKeyUnknown(HostError):
    pass


class HostKeyChanged(HostError):
    pass


class AccessDenied(HostError):
    pass


class ConnectionLost(HostError):
    arrived = True


class TimedOut(HostError):
    arrived = True


class TooMuch(HostError):
    arrived = True


class Garbled(HostError):
    arrived = True


class ContainerGone(HostError):
    pass


class ToolMissing(RlxError):
    pass


def waited_out(error: RlxError) -> bool:
    """Return whether a second try is worth it; if so, a moment has passed, another one for each of several at once."""
    if not (isinstance(error, HostError) and error.was_turned_away):
        return False
    time.sleep(_PAUSE_S * (1 + random.random()))
    return True


@contextmanager
def reading_answer(host: str, question: str) -> Iterator[None]:
    """Raise Garbled where an answer cannot be read, because another machine may say anything."""
    try:
        yield
    except (ValueError, LookupError, ArithmeticError, RecursionError, TypeError, AttributeError) as problem:
        raise Garbled(
            f"{host}: its answer to {question} makes no sense ({type(problem).__name__}: {str(problem)[:100]})",
            "check whether a program on its way changes it: rlx doctor HOST",
        ) from None
