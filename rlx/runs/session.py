"""The terminal session of a run, on its host. It is where a person watches; the run does not depend on it."""

from __future__ import annotations

from rlx.errors import RlxError
from rlx.hosts import tmux_socket, transport_for
from rlx.hosts.transports import terminal_command
from rlx.model import Cmd
from rlx.runs.adopted.log_source import is_adopted
from rlx.runs.run import RunRef


def attach_command(ref: RunRef, *, read_only: bool) -> Cmd:
    """Write what shows the session in this terminal, through ssh for another machine. Raises RlxError without one.

    A host without tmux has none: its log can be followed all the same.
    """
    if is_adopted(ref):
        raise RlxError(
            f"{ref.run_id} has no terminal session: rlx did not start it", f"follow its log: rlx logs -f {ref.run_id}"
        )
    # "=" asks for exactly this name; tmux would also take a session that begins like it.
    target = f"={ref.session}"
    probe = Cmd("sh", "-c", 'command -v tmux >/dev/null && exec tmux -L "$1" has-session -t "$2"', "rlx-attach")
    found = transport_for(ref.place).run(Cmd(*probe.arguments, tmux_socket(), target), timeout_s=20)
    if found.code != 0:
        reason = found.err.decode(errors="replace").strip() or "there is no tmux on the host"
        raise RlxError(f"{ref.run_id} has no terminal session ({reason})", f"follow its log: rlx logs -f {ref.run_id}")
    attach = Cmd("tmux", "-L", tmux_socket(), "attach-session", *(["-r"] if read_only else []), "-t", target)
    return terminal_command(ref.place, attach)
