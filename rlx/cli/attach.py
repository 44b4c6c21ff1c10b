"""rlx attach: open the terminal session of a run."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rlx.cli.frame.options import RUNS
from rlx.cli.frame.output import patience
from rlx.errors import RlxError


def attach(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="Arm, run name or id. Default: the latest launch.", autocompletion=RUNS),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Pass keys on to the session, Ctrl-C too.")] = False,
) -> None:
    """Open the terminal session of a run.

    Read-only unless --write; Ctrl-b d detaches. Closing the session does not end the run.
    """
    from rlx.api.watching import attachable
    from rlx.hosts.ssh.openssh import ssh_environment
    from rlx.runs.control import attach_command

    with patience():
        run = attachable(name)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RlxError("attach needs a terminal", f"follow the log instead: rlx logs -f {run.run_id}")
    command = attach_command(run, read_only=not write)
    environment = os.environ if run.place.is_local else ssh_environment(os.environ)
    os.execvpe(command.argv()[0], command.argv(), environment)
