"""rlx attach: look at a run in the terminal session it lives in."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rlx.errors import RlxError


def attach(
    name: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Arm, run name or id. Default: the latest launch.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Pass keys on to the session, Ctrl-C too.")] = False,
) -> None:
    """Watch a run in its tmux session.

    Read-only unless asked otherwise; Ctrl-b d detaches. The run does not depend on the session:
    closing it ends nothing.
    """
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.hosts.ssh.openssh import ssh_environment
    from rlx.runs import look
    from rlx.runs.session import attach_command

    index = open_index()
    refs = runs_or_latest(index, [name] if name else None)
    seen = look(index, refs)
    alive = [ref for ref in refs if not seen[ref.run_id].state.is_terminal]
    if not alive:
        ended = ", ".join(ref.run_id for ref in refs)
        raise RlxError(
            f"nothing to attach to: {ended} {'has' if len(refs) == 1 else 'have'} ended",
            "read its log: rlx logs " + refs[0].run_id,
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RlxError("attach needs a terminal", f"follow the log instead: rlx logs -f {alive[0].run_id}")
    command = attach_command(alive[0], read_only=not write)
    environment = os.environ if alive[0].place.is_local else ssh_environment(os.environ)
    os.execvpe(command.argv()[0], command.argv(), environment)
