"""The exit code of the commands that state what runs show: 0 where that may be reported, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rlx.errors import ExitCode

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared, Uncompared


def reportable_exit(found: Compared | Uncompared, allow_unverified: bool) -> typer.Exit:
    """The end of the command; where it is unverified runs alone that forbid 0, stderr names the option."""
    from rlx.cli.frame.output import narrate

    code = found.outcome(allow_unverified=allow_unverified)
    if code is not ExitCode.OK and found.outcome(allow_unverified=True) is ExitCode.OK:
        why = "runs are unverified, or the control collapsed"
        narrate(f"exit code {code:d}: {why}, and nothing else forbids to report; --allow-unverified: 0")
    return typer.Exit(code)
