"""Interpret an exit code, where the log says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlx.evidence.reading.usage_file import GROUP, HOST, MemoryKills
from rlx.model import Finding, RunState, Severity

_SIGNALS = {
    134: ("SIGABRT", "a library gave up", "the lines before the end name it"),
    135: ("SIGBUS", "a bus error: /dev/shm or a mapped file ended", "--ipc=host or --shm-size for the container"),
    137: (
        "SIGKILL",
        "the kernel's memory killer, a container's end, or kill -9; nobody can write a last word then",
        "dmesg | grep -i -e oom -e kill on the host; docker inspect says OOMKilled of a container",
    ),
    139: ("SIGSEGV", "a compiled library crashed", "check its version with rlx doctor; PYTHONFAULTHANDLER=1 in env"),
    143: ("SIGTERM", "somebody or something asked it to end", "find out who: rlx stop, a scheduler, a shutdown"),
}
_KILLED = 137
_MORE_MEMORY = (
    "dmesg | grep -i -e oom -e kill on the host names them; then more memory for the container, fewer runs beside each "
    "other, fewer workers or smaller batches"
)
_WHOSE = {
    GROUP: "by the counter of its cgroup (its container, or the session that started it), where other "
    "programs and other runs count, too",
    HOST: "by the counter of its host, where anybody's processes count",
}
_PROGRAMS = {
    126: ("a program may not be executed", "check interpreter and entry point, and their permissions"),
    127: ("a program was not found", "check backend.python and the host's setup"),
}


def ending(exit_code: int | None, kills: Sequence[MemoryKills] = ()) -> Iterator[Finding]:
    """Interpret a shell's exit code for a log without a cause. What the kernel has counted need not be supposed."""
    if exit_code == _KILLED and kills:
        return
    if exit_code in _SIGNALS:
        name, meaning, fix = _SIGNALS[exit_code]
        yield Finding("RLX888", Severity.ERROR, f"the run was ended by {name} (exit code {exit_code}): {meaning}", fix)
    elif exit_code in _PROGRAMS:
        meaning, fix = _PROGRAMS[exit_code]
        yield Finding("RLX888", Severity.ERROR, f"exit code {exit_code}: {meaning}", fix)


def memory_kills(kills: Sequence[MemoryKills], state: RunState | None) -> Iterator[Finding]:
    """Say that the kernel ended processes for want of memory while a run went on that has not ended well.

    The kernel counts, and names nobody.
    """
    if kills and state not in (RunState.FINISHED, RunState.STOPPED):
        severity = Severity.ERROR if state in (RunState.FAILED, RunState.LOST) else Severity.WARNING
        yield Finding("RLX888", severity, f"{kills_words(kills)}, {_WHOSE[kills[-1].scope]}", _MORE_MEMORY)


def kills_words(kills: Sequence[MemoryKills]) -> str:
    """`the kernel ended 2 processes for want of memory while it ran`."""
    count = sum(each.count for each in kills)
    return f"the kernel ended {count} process{'es' * (count > 1)} for want of memory while it ran"
