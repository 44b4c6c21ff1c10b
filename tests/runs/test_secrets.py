"""A secret is in the run's environment, and before that in one 0600 file; never in an argument, a manifest or a log."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.cli.frame.secret_values import secret_values
from rlx.errors import UsageError
from rlx.model import RunState
from rlx.runs import Index, stop, take_snapshots
from rlx.runs.launching.shipment import env_file
from tests.runs.toys import FOREVER, ended, home, log_of, marked_processes, reaches, start, toy_plan, until

SECRET = "hunter2-5f0c1e7a"


def files_with_the_secret() -> list[Path]:
    places = [home(), *(Path(os.environ[name]) for name in ("RLX_ROOT", "RLX_LEASES"))]
    files = [path for place in places for path in place.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if SECRET.encode() in content(path)]


def content(path: Path) -> bytes:
    """Nothing, for a file that is gone meanwhile: holders tidy up, and processes end, while one looks."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def arguments_with_the_secret() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if SECRET.encode() in text:
            found.append(text.decode(errors="replace"))
    return found


@contextmanager
def watched_arguments() -> Iterator[list[str]]:
    """Reads the arguments of all processes over and over, as a curious neighbour would."""
    found: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            found.extend(arguments_with_the_secret())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def test_a_secret_is_only_in_the_file_of_a_run_that_waits() -> None:
    plans = [toy_plan(f"echo up\n{FOREVER}", arm=arm, secrets=("TOKEN",)) for arm in "ab"]
    with watched_arguments() as seen:
        running, waiting = start(*plans, secrets={"TOKEN": SECRET, "OTHER": "not asked for"})
        until(lambda: "up" in log_of(running), "the first runs")
        reaches(waiting, RunState.QUEUED)
    assert seen == []
    assert files_with_the_secret() == [waiting.run_dir / "env"]
    assert (waiting.run_dir / "env").stat().st_mode & 0o777 == 0o600
    assert waiting.run_dir.stat().st_mode & 0o777 == 0o700
    assert SECRET not in str(take_snapshots(Index(home()), [running, waiting]))
    environments = [content(Path(f"/proc/{pid}/environ")) for pid in marked_processes(running.run_id)]
    holding = [one for one in environments if f"TOKEN={SECRET}".encode() in one.split(b"\0")]
    assert holding and not any(b"not asked for" in one for one in environments)


def test_a_secret_arrives_byte_for_byte() -> None:
    value = os.fsdecode(b'it\'s "$(x)" `y` \\ \n\n \x81\x82\x88\xff\x01 \xc3\xa9 -n !') + "\n"
    (ref,) = start(toy_plan('printf %s "$TOKEN" >checkpoints/got', secrets=("TOKEN",)), secrets={"TOKEN": value})
    assert ended(ref).exit_code == 0
    assert (ref.run_dir / "checkpoints/got").read_bytes() == os.fsencode(value)
    assert not (ref.run_dir / "env").exists()


@pytest.mark.parametrize("shell", [["/bin/sh"], ["busybox", "sh"], ["bash", "--posix"]])
@given(values=st.dictionaries(st.from_regex(r"S_[A-Za-z0-9_]{1,8}", fullmatch=True), st.binary(), min_size=1))
@settings(max_examples=25, deadline=None)
def test_any_value_survives_the_env_file(shell: list[str], values: dict[str, bytes]) -> None:
    wanted = {name: value.replace(b"\0", b"") for name, value in values.items()}
    text = env_file({name: os.fsdecode(value) for name, value in wanted.items()})
    script = text.encode(errors="surrogateescape") + b"\nexec env -0\n"
    out = subprocess.run([*shell, "-s"], input=script, capture_output=True, check=True, timeout=30).stdout
    got = dict(entry.split(b"=", 1) for entry in out.split(b"\0") if b"=" in entry)
    assert {name: got[name.encode()] for name in wanted} == wanted


def test_a_run_that_is_stopped_before_it_starts_loses_its_secrets() -> None:
    _, waiting = start(*(toy_plan(FOREVER, arm=arm, secrets=("TOKEN",)) for arm in "ab"), secrets={"TOKEN": SECRET})
    reaches(waiting, RunState.QUEUED)
    stop(waiting, grace_s=1)
    until(lambda: files_with_the_secret() == [], "the running one has read its own")


def test_a_secret_file_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secrets"
    file.write_text("# mine\n\nTOKEN=a=b c\nexport QUOTED='x y'\n", encoding="utf-8")
    monkeypatch.setenv("TOKEN", "from the shell")
    monkeypatch.setenv("OTHER", "kept")
    values = secret_values(str(file))
    assert (values["TOKEN"], values["QUOTED"], values["OTHER"]) == ("a=b c", "x y", "kept")
    file.write_text(f"just {SECRET}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="secrets:1") as caught:
        secret_values(str(file))
    assert SECRET not in caught.value.message + caught.value.hint
