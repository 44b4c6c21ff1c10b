"""Open a tmux window for runs: their status on top, their logs side by side, and the use of devices below."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlx.api.runs import Run, Runs
    from rlx.runs import RunRef

_MOST_LOGS = 4
_LOGS_SHARE, _DEVICE_LINES = 70, 10
_DEVICES_EVERY_S = 10
_WITHOUT = "without it: rlx status -w in one terminal, rlx logs -f in another"


@dataclass(frozen=True, slots=True)
class Watched:
    """A window that is open. `attach`: the command that shows it; empty where the person is looking at it already."""

    window: str
    attach: tuple[str, ...]


def watch(runs: Runs | None = None) -> Watched:
    """Open a window over these runs, or those of the latest launch: here inside tmux, else in a session of its own.

    At most four logs are shown. Raises NoSuchRun, RlxError where tmux or libtmux is missing or tmux refuses.
    """
    from rlx.api.runs import open_index, runs_or_latest

    tmux = _libtmux()
    refs = runs_or_latest(open_index(), runs)
    try:
        return _open(tmux, refs)
    except tmux.exc.LibTmuxException as error:
        raise RlxError(f"tmux opens no window: {error}", _WITHOUT) from None


def _libtmux() -> Any:
    if shutil.which("tmux") is None:
        raise RlxError(
            "rlx watch needs tmux, which is not installed on this machine", f"apt-get install tmux; {_WITHOUT}"
        )
    try:
        import libtmux
    except ImportError:
        from rlx.installed import install_command

        raise RlxError("rlx watch needs libtmux", f"{install_command('watch')}; {_WITHOUT}") from None
    return libtmux


def _open(tmux: Any, refs: Sequence[RunRef]) -> Watched:
    from rlx.runs.run import tmux_name

    name = tmux_name(f"rlx-{refs[0].launch_id}")
    status = _kept(_rlx("status", "-w", *(ref.run_id for ref in refs)))
    if here := _session_here(tmux):
        _fill(tmux, here.new_window(window_name=name, window_shell=status, attach=True), refs)
        return Watched(name, ())
    from rlx.hosts import tmux_socket

    socket = f"{tmux_socket()}-watch"
    size = shutil.get_terminal_size((200, 50))
    session = tmux.Server(socket_name=socket).new_session(
        session_name=name, kill_session=True, window_name=name, window_command=status, x=size.columns, y=size.lines
    )
    _fill(tmux, session.active_window, refs)
    return Watched(name, ("tmux", "-L", socket, "attach-session", "-t", f"={name}"))


def _session_here(tmux: Any) -> Any | None:
    """Return the session in which this was typed; None outside of tmux, and in a shell that outlived the tmux it came
    from.
    """
    socket, _, number = os.environ.get("TMUX", "").partition(",")
    if not socket:
        return None
    sessions = tmux.Server(socket_path=socket).sessions
    return next((each for each in sessions if each.session_id == f"${number.rpartition(',')[2]}"), None)


def _fill(tmux: Any, window: Any, refs: Sequence[RunRef]) -> None:
    """Add the logs and the devices to a window that shows the status."""
    below, right = tmux.constants.PaneDirection.Below, tmux.constants.PaneDirection.Right
    top = window.active_pane
    first, *others = refs[:_MOST_LOGS]
    pane = top.split(direction=below, size=f"{_LOGS_SHARE}%", shell=_log(first))
    hosts = dict.fromkeys(ref.host for ref in refs if not ref.place.is_local)
    if hosts:
        pane.split(direction=below, size=_DEVICE_LINES, shell=_devices(tuple(hosts)))
    for place, ref in enumerate(others):
        pane = pane.split(direction=right, size=f"{100 - 100 // (len(others) + 1 - place)}%", shell=_log(ref))
    top.select()


def _log(ref: RunRef) -> str:
    return _kept(_rlx("logs", "-f", "-n", "50", ref.run_id))


def _kept(command: str) -> str:
    """Keep the pane after the command's end, to be read; tmux's `remain-on-exit` would scroll the first line away."""
    return f"{command}; exec cat >/dev/null"


def _devices(hosts: Sequence[str]) -> str:
    asked = "; ".join(_rlx("status", "--host", host) for host in hosts)
    return f"while :; do clear; {asked}; sleep {_DEVICES_EVERY_S}; done"


def _rlx(*arguments: str) -> str:
    return shlex.join((sys.executable, "-m", "rlx", *arguments))


def attachable(run: Run | None = None) -> RunRef:
    """Find the first of these runs, by default of the latest launch, that has not ended: an ended one has no session.

    Raises NoSuchRun, and RlxError where all have ended.
    """
    from rlx.api.runs import open_index, runs_or_latest
    from rlx.runs import take_snapshots

    index = open_index()
    refs = runs_or_latest(index, run)
    seen = take_snapshots(index, refs)
    alive = next((ref for ref in refs if not seen[ref.run_id].state.is_terminal), None)
    if alive is None:
        ended = ", ".join(ref.run_id for ref in refs)
        raise RlxError(
            f"nothing to attach to: {ended} {'has' if len(refs) == 1 else 'have'} ended",
            "read its log: rlx logs " + refs[0].run_id,
        )
    return alive
