"""Run `python -m rlx` without starting Python for each command: a process that has imported rlx forks one that runs it.

    python -m tests.command_server SOCKET      the number of an inherited socket, over which `tests.command` asks

A command is a process like any other, with the caller's streams, environment, folder and namespaces; only its start is
saved, which is most of the time of most commands. What a start costs, and loads, is what tests/test_startup.py and
benchmarks/startup.py look at.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pkgutil
import runpy
import selectors
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import cast

import rlx

_MAX_FILES = 16
# What commands import inside of functions, beside the modules of rlx.
_LIBRARIES = ("numpy", "jinja2", "yaml", "rich.table", "email.message", "zoneinfo")


def load() -> None:
    """Import what commands import, so that no fork has to."""
    names = [module.name for module in pkgutil.walk_packages(rlx.__path__, "rlx.")]
    for name in (*_LIBRARIES, *names):
        if ".payload" not in name and not name.endswith("__main__"):
            import_module(name)
    gc.freeze()


def serve(control: socket.socket) -> list[int]:
    """Fork for each request until nobody can ask any more; return in the forks alone, with the files that came."""
    ready = selectors.DefaultSelector()
    ready.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.data:
                ready.unregister(key.fileobj)
                _report_end(key.fd, *key.data)
                continue
            message, files, *_ = socket.recv_fds(control, 1, _MAX_FILES)
            if not message:
                os._exit(0)
            if not (pid := os.fork()):
                _close(ready)
                return files
            answer = _keep_the_first(files)
            answer.sendall(b"%d\n" % pid)
            ready.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, answer))


def _close(ready: selectors.BaseSelector) -> None:
    """Close in a fork what is for the server alone: nobody is to wait for the end of another's command."""
    for key in list(ready.get_map().values()):
        if key.data:
            os.close(key.fd)
        (key.data[1] if key.data else cast("socket.socket", key.fileobj)).close()
    ready.close()


def _keep_the_first(files: Sequence[int]) -> socket.socket:
    for file in files[1:]:
        os.close(file)
    return socket.socket(fileno=files[0])


def _report_end(pidfd: int, pid: int, answer: socket.socket) -> None:
    os.close(pidfd)
    _, status = os.waitpid(pid, 0)
    with answer, suppress(BrokenPipeError):  # whoever asked may be gone
        answer.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def become(request: socket.socket, streams: Sequence[int], namespaces: Sequence[int]) -> None:
    """Turn this process into what was asked for."""
    with request, request.makefile("rb") as text:
        order = json.load(text)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace in namespaces:
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for file in (*streams, *namespaces):
        os.close(file)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    time.tzset()
    sys.argv = ["rlx", *order["arguments"]]
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 - open as long as the process runs
    sys.stdout = open(1, "w", 1 if os.isatty(1) else -1, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115


if __name__ == "__main__":
    load()
    asked, *rest = serve(socket.socket(fileno=int(sys.argv[1])))
    become(socket.socket(fileno=asked), rest[:3], rest[3:])
    runpy.run_module("rlx", run_name="__main__", alter_sys=True)
