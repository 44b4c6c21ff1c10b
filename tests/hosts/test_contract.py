"""What every transport promises, held against each of them: real processes, sshd and Docker."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlx.errors import ExitCode
from rlx.hosts import LocalTransport, Transport, connect, transport_for
from rlx.hosts.host_errors import TimedOut, TooMuch
from rlx.model import LOCAL, Cmd
from tests.engine import Engine
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

OF_A_SHELL = {"PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME"}
ALLOWED = {"HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TMPDIR", "TERM"} | OF_A_SHELL
REMOTE = ("openssh", "openssh-program", "paramiko", "docker", "docker-over-ssh")
HOSTS = ["local", *(pytest.param(kind, marks=pytest.mark.hosts) for kind in REMOTE)]


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Transport]:
    kind = request.param
    if kind == "local":
        yield LocalTransport()
    elif kind.startswith("openssh"):
        server = request.getfixturevalue("loopback")
        if kind == "openssh-program":
            # A config that only ssh itself can tell the meaning of.
            server.add_config("Match exec true\nHost *")
        connect(server.place)
        yield transport_for(server.place)
    elif kind == "paramiko":
        yield transport_for(request.getfixturevalue("loopback").place_via(kind))
    else:
        container = request.getfixturevalue("container")
        yield from container_host(container, request.getfixturevalue("running_engine"), monkeypatch, tmp_path, kind)


@pytest.fixture(scope="module")
def container(running_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With the folder of the tests where it is outside."""
    name, folder = f"contract-{os.getpid()}", tmp_path_factory.getbasetemp()
    running_engine.run_container(name, {folder: folder})
    yield name
    running_engine.docker("rm", "-f", name)


def container_host(
    name: str, engine: Engine, monkeypatch: pytest.MonkeyPatch, folder: Path, kind: str
) -> Iterator[Transport]:
    for variable, value in engine.environment.items():
        monkeypatch.setenv(variable, value)
    if kind == "docker":
        yield transport_for(replace(LOCAL, inside=name))
        return
    server = Loopback(folder / "server", engine.environment)
    monkeypatch.setenv("RLX_SSH_CONFIG", str(server.config))
    with server:
        yield transport_for(replace(server.place, inside=name))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def processes_with(word: str) -> list[int]:
    """Living processes that have the word in their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.contract
def test_a_command_is_its_output_its_complaints_and_its_exit(host: Transport) -> None:
    data = bytes(range(256)) * 40
    completed = host.run(Cmd("sh", "-c", "cat; printf oops >&2; exit 3"), stdin=data, timeout_s=30)
    assert (completed.code, completed.out, completed.err) == (3, data, b"oops")


@pytest.mark.parametrize("code", [0, 1, 127, 137, 254, 255])
def test_any_exit_is_an_answer(host: Transport, code: int) -> None:
    completed = host.run(Cmd("sh", "-c", f"exit {code}"), timeout_s=30)
    assert (completed.code, completed.out, completed.err) == (code, b"", b"")


def test_a_signal_is_an_exit_as_shells_say_it(host: Transport) -> None:
    assert host.run(Cmd("sh", "-c", "kill -s KILL $$"), timeout_s=30).code == 137
    assert host.run(Cmd("sh", "-c", "kill -s TERM $$"), timeout_s=30).code == 143


def test_a_program_that_is_not_there_is_named(host: Transport) -> None:
    completed = host.run(Cmd("no-such-program"), timeout_s=30)
    assert completed.code == 127
    assert b"no-such-program" in completed.err


def test_without_input_there_is_none(host: Transport) -> None:
    assert host.run(Cmd("cat"), timeout_s=30).out == b""
    with host.stream(Cmd("cat")) as chunks:
        assert list(chunks) == []


def test_input_that_nobody_reads_is_no_error(host: Transport) -> None:
    assert host.run(Cmd("true"), stdin=b"x\n" * 1_000_000, timeout_s=30).code == 0
    late = host.run(Cmd("sh", "-c", "exec <&-; sleep 0.5; echo still there"), stdin=b"x\n" * 1_000_000, timeout_s=30)
    assert (late.code, late.out) == (0, b"still there\n")


words = st.lists(st.binary(max_size=60).map(lambda data: os.fsdecode(data.replace(b"\0", b""))), max_size=4)


@pytest.mark.contract
@given(arguments=words)
@example(
    arguments=["-n", "--", "", "it's", '"$(id)"', "`id`", "a\nb", "\\", "\\0101", "*", "ünï", "\udcff", "~", "\x81!"]
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_argument_arrives(host: Transport, arguments: list[str]) -> None:
    completed = host.run(Cmd("sh", "-c", 'printf "%s\\0" "$@"', "print", *arguments), timeout_s=30)
    expected = arguments or [""]
    assert completed.out.split(b"\0")[:-1] == [os.fsencode(word) for word in expected]


def test_long_arguments_arrive(host: Transport) -> None:
    """More than one argument may hold: the command line itself does not travel as one."""
    long = ["x'y" * 30_000] * 4
    completed = host.run(Cmd("sh", "-c", 'printf "%s\\0" "$@"', "print", *long), timeout_s=60)
    assert completed.out.decode().split("\0")[:-1] == long


def test_much_goes_in_and_out_at_once(host: Transport) -> None:
    data = os.urandom(1_000_000) * 60
    completed = host.run(Cmd("cat"), stdin=data, timeout_s=120)
    assert hashlib.sha256(completed.out).digest() == hashlib.sha256(data).digest()


def test_much_output_and_many_complaints_at_once(host: Transport) -> None:
    script = "head -c 20000000 /dev/zero & head -c 20000000 /dev/zero >&2; wait"
    completed = host.run(Cmd("sh", "-c", script), timeout_s=60)
    assert (len(completed.out), len(completed.err)) == (20_000_000, 20_000_000)


def test_a_command_that_takes_too_long_ends_with_its_children(host: Transport) -> None:
    word = f"RLX_TOO_LONG_{os.getpid()}"
    # The seconds are the command's: what comes before it is there already.
    assert host.run(Cmd("true"), timeout_s=30).code == 0
    with pytest.raises(TimedOut, match=r"\b3 s\b.*sh -c") as caught:
        host.run(Cmd("sh", "-c", "sh -c 'sleep 500; :' $0 & wait", word), timeout_s=3)
    assert caught.value.exit_code is ExitCode.UNREACHABLE
    assert caught.value.arrived
    wait_until(lambda: not processes_with(word))


def test_a_command_that_ignores_being_told_to_end_is_killed(host: Transport) -> None:
    word = f"RLX_STUBBORN_{os.getpid()}"
    with host.stream(Cmd("sh", "-c", 'trap "" TERM; echo begun; while :; do sleep 1; done', word)) as chunks:
        assert next(chunks) == b"begun\n"
        assert processes_with(word)
    wait_until(lambda: not processes_with(word))


def test_what_a_command_leaves_behind_on_purpose_stays(host: Transport, tmp_path: Path) -> None:
    script = 'setsid sh -c "sleep 1; echo done >$1/left" >/dev/null 2>&1 </dev/null & echo started'
    assert host.run(Cmd("sh", "-c", script, "leave", str(tmp_path)), timeout_s=30).out == b"started\n"
    wait_until((tmp_path / "left").exists)


@pytest.mark.contract
def test_a_stream_comes_as_it_is_written_and_ends_when_it_is_left(host: Transport) -> None:
    word = f"RLX_STREAM_{os.getpid()}"
    with host.stream(Cmd("sh", "-c", "echo first; while :; do sleep 0.05; echo more; done", word)) as chunks:
        received = next(chunks)
        while b"more" not in received:
            received += next(chunks)
        assert received.startswith(b"first\nmore\n")
        assert processes_with(word)
    wait_until(lambda: not processes_with(word))


def test_a_quiet_stream_ends_too(host: Transport, tmp_path: Path) -> None:
    log = tmp_path / f"quiet-{os.getpid()}"
    log.write_text("one line\n", encoding="utf-8")
    with host.stream(Cmd("tail", "-F", str(log))) as chunks:
        assert next(chunks) == b"one line\n"
        assert processes_with(str(log))
    wait_until(lambda: not processes_with(str(log)))


def test_a_stream_that_ends_is_read_to_its_end(host: Transport) -> None:
    with host.stream(Cmd("sh", "-c", "head -c 3000000 /dev/zero; exit 1")) as chunks:
        assert sum(map(len, chunks)) == 3_000_000


def test_an_empty_stream_and_one_that_nobody_reads(host: Transport) -> None:
    with host.stream(Cmd("true")) as chunks:
        assert list(chunks) == []
    with host.stream(Cmd("head", "-c", "3000000", "/dev/zero")):
        pass
    assert host.run(Cmd("true"), timeout_s=30).code == 0


def test_nothing_of_the_callers_environment_arrives(host: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    monkeypatch.setenv("RLX_RUN", "a-run-that-rlx-was-called-from")
    lines = host.run(Cmd("env"), timeout_s=30).out.decode().splitlines()
    found = dict(line.partition("=")[::2] for line in lines)
    assert {"HOME", "PATH"} <= set(found)
    assert set(found) <= ALLOWED | {name for name in found if name.startswith("LC_")}


def test_a_dozen_commands_and_streams_at_once(host: Transport) -> None:
    def ask(number: int) -> bytes:
        return host.run(Cmd("sh", "-c", "sleep 0.1; echo $0", str(number)), timeout_s=60).out

    with ThreadPoolExecutor(12) as pool:
        streams = [host.stream(Cmd("sh", "-c", "echo begun; sleep 500")) for _ in range(8)]
        chunks = [stream.__enter__() for stream in streams]
        try:
            assert [next(chunk) for chunk in chunks] == [b"begun\n"] * 8
            assert list(pool.map(ask, range(12))) == [f"{number}\n".encode() for number in range(12)]
        finally:
            for stream in streams:
                stream.__exit__(None, None, None)


@pytest.mark.parametrize("where", ["", ">&2"], ids=["output", "complaints"])
def test_an_answer_without_end_is_refused(host: Transport, where: str) -> None:
    word = f"RLX_ENDLESS_{os.getpid()}"
    with pytest.raises(TooMuch, match=rf"\b66 MiB\b.* yes {word}") as caught:
        host.run(Cmd("sh", "-c", f"exec yes {word} {where}"), timeout_s=300)
    assert (caught.value.exit_code, caught.value.arrived) == (ExitCode.UNREACHABLE, True)
    wait_until(lambda: not processes_with(word))


def test_a_long_answer_arrives(host: Transport) -> None:
    size = 60 * 1024**2
    assert host.run(Cmd("head", "-c", str(size), "/dev/zero"), timeout_s=300).out == bytes(size)
