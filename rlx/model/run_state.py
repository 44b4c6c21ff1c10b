"""Name the states of a run.

They are derived from the files of the run directory and the process table, never stored.
"""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """queued → starting → running ⇄ stalled → finished | failed | stopped | lost.

    queued: waits for its devices. starting: has its devices, no training step yet. running: the log shows steps.
    stalled: runs, but has logged no step for far longer than its steps take; what it logged before says how long.
    finished: the command ended with 0. failed: it ended with anything else. stopped: the end was requested.
    lost: nothing of the run is alive and no end was recorded.
    An adopted or imported run leaves no record: it is finished if its log shows the last step, and, where the log is
    followed, it is written no more; otherwise it is lost.
    unreachable: its host does not answer now, or another one was asked, so the state is not known; what is known to
    have ended stays ended.
    """

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    UNREACHABLE = "unreachable"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset({RunState.FINISHED, RunState.FAILED, RunState.STOPPED, RunState.LOST})
