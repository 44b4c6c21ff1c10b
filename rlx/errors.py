"""Define the errors that rlx raises on purpose, with their exit codes. Any package may import this module.

    RlxError              an expected error: message, hint, exit code
    ├── UsageError        wrong arguments or an invalid recipe (2)
    └── NoSuchRun         a name that matches no run, or several (12)

There is one handler, in `rlx.cli`. Anything that is not an RlxError is a bug in rlx (exit 3).
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """List the exit codes of rlx. They are stable, and listed in `rlx --help`."""

    OK = 0
    ERROR = 1
    USAGE = 2
    BUG = 3
    UNREACHABLE = 4
    PREFLIGHT_FAILED = 5
    RUN_FAILED = 10
    NOT_FINISHED = 11
    NO_SUCH_RUN = 12
    STOPPED = 13
    NOT_VERIFIED = 14
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


class RlxError(Exception):
    """Report an error that a user can cause or meet: what is wrong and where (`message`), and the fix (`hint`)."""

    exit_code: ExitCode = ExitCode.ERROR

    def __init__(self, message: str, hint: str = "", exit_code: ExitCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(RlxError):
    exit_code = ExitCode.USAGE


class NoSuchRun(RlxError):
    exit_code = ExitCode.NO_SUCH_RUN
