"""A holder that is killed before its devices have become the run's: the run must not use what others may get."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlx.model import RunState
from rlx.runs import RunRef, stop
from tests.devices import put_program
from tests.engine import Engine
from tests.runs.test_containers import plan_in, shared
from tests.runs.toys import (
    ended,
    holder_pid,
    log_of,
    marked_processes,
    see,
    start,
    state_file,
    toy_plan,
    until,
)


@contextmanager
def program_that_hangs(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, when: str) -> Iterator[Path]:
    """A program of the host that, where the shell condition holds, waits. Yields the file that says that it does."""
    programs = folder / "programs"
    programs.mkdir()
    hangs, release = folder / "hangs", folder / "release"
    wait = f"touch {hangs}; until [ -e {release} ]; do sleep 0.1; done"
    put_program(programs, name, f'if {when}; then {wait}; fi\nexec {shutil.which(name)} "$@"')
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    yield hangs
    release.touch()


def killed_before_its_claim(ref: RunRef, hangs: Path) -> None:
    until(lambda: hangs.exists() and state_file(ref, "supervisor").exists(), "the holder is about to pass it on")
    os.kill(holder_pid(ref), signal.SIGKILL)


def assert_that_it_never_ran(ref: RunRef) -> None:
    # From inside a container, only time tells that a holder is gone.
    seen = until(lambda: found if (found := see(ref)).state.is_terminal else None, "it gives up", 60)
    assert (seen.state, seen.exit_code) == (RunState.FAILED, 75)
    assert log_of(ref).startswith("rlx: ") and "up" not in log_of(ref)
    assert not marked_processes(ref.run_id)


def test_of_a_run_in_a_container(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = shared(engine, tmp_path, "trainer")
    with program_that_hangs(tmp_path, monkeypatch, "grep", 'case "$*" in *NSpid*) ;; *) false ;; esac') as hangs:
        (ref,) = start(plan_in(site, "exit 0\n"))
        killed_before_its_claim(ref, hangs)
        assert_that_it_never_ran(ref)
        assert ended(start(toy_plan("exit 0\n", arm="other"))[0]).state is RunState.FINISHED


def test_of_a_run_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second_claim = f"! mkdir {tmp_path}/first-claim 2>/dev/null"
    with program_that_hangs(tmp_path, monkeypatch, "id", f'[ "$*" = -u ] && {second_claim}') as hangs:
        (ref,) = start(toy_plan("echo up\n"))
        killed_before_its_claim(ref, hangs)
        assert_that_it_never_ran(ref)


def test_a_run_that_is_stopped_before_its_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second_claim = f"! mkdir {tmp_path}/first-claim 2>/dev/null"
    with program_that_hangs(tmp_path, monkeypatch, "id", f'[ "$*" = -u ] && {second_claim}') as hangs:
        (ref,) = start(toy_plan("echo up\n"))
        until(lambda: hangs.exists() and state_file(ref, "supervisor").exists(), "it waits for its claim")
        stop(ref, 1)
        assert (see(ref).state, "up" in log_of(ref)) == (RunState.STOPPED, False)
