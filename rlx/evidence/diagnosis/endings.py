"""Interpret an exit code, where the log says nothing."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.plan import Finding, Severity

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
_PROGRAMS = {
    126: ("a program may not be executed", "check interpreter and entry point, and their permissions"),
    127: ("a program was not found", "check backend.python and the host's setup"),
}


def ending(exit_code: int | None) -> Iterator[Finding]:
    """Interpret a shell's exit code for a log without a cause."""
    if exit_code in _SIGNALS:
        name, meaning, fix = _SIGNALS[exit_code]
        yield Finding("RLX888", Severity.ERROR, f"the run was ended by {name} (exit code {exit_code}): {meaning}", fix)
    elif exit_code in _PROGRAMS:
        meaning, fix = _PROGRAMS[exit_code]
        yield Finding("RLX888", Severity.ERROR, f"exit code {exit_code}: {meaning}", fix)
