"""rlx watch: open a tmux window with the status and the logs of runs."""

from __future__ import annotations

import os
import sys

from rlx.cli.frame.options import RunsArgument
from rlx.cli.frame.output import narrate


def watch(
    names: RunsArgument = None,
) -> None:
    """Open a tmux window with the status and the logs of runs.

    Status on top, up to four logs side by side, and which runs have the devices of their hosts. Inside tmux it is a new
    window there, else a session of its own; leave it with the keys of tmux (Ctrl-B D). Nothing in it can end a run.
    """
    from rlx.api.watching import watch as open_window

    opened = open_window(names or None)
    if opened.attach and sys.stdin.isatty() and sys.stdout.isatty():
        os.execvp(opened.attach[0], opened.attach)
    print(opened.window)
    if opened.attach:
        narrate(f"attach: {' '.join(opened.attach)}")
