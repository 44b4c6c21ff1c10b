"""A training that prints its secrets in every way: they are in its processes, and nowhere that rlx writes or shows."""

from __future__ import annotations

import base64
import functools
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.hosts import tmux_socket
from rlx.model import LaunchPlan, RunState
from rlx.payload.mask_secrets import spellings
from rlx.runs import RunRef
from tests.cli.support import rlx
from tests.cli.test_secrets_asked import write_plans
from tests.command import run_rlx
from tests.conftest import CASES
from tests.rig import Container
from tests.rig.rig import Rig
from tests.runs.laptop import Laptop, run_folder, toy
from tests.runs.laptop import log as log_on
from tests.runs.toys import ended, home, is_running, log_of, marked_processes, reaches, start, toy_plan, until

LOG = CASES / "logs/tiny-baseline/log"

# Prints the secrets as they are, cut in pieces, without a line end, and as programs spell them; writes them into files.
_PRINT = """
import base64, json, os, sys, time, urllib.parse
values = [os.environ[name] for name in ("TOKEN_OF_A", "PASSWORD_OF_B", "KEY_OF_C")]
for value in values:
    print("plain", value, flush=True)
    print(f"repr {value!r} url {urllib.parse.quote(value, safe='')} json {json.dumps(value)}")
    print("basic", base64.b64encode(f"me:{value}".encode()).decode(), file=sys.stderr)
    for letter in f"pieces {value} of it":
        os.write(1, letter.encode())
    os.write(2, b"\\rprogress 50% " + value.encode())
    time.sleep(0.1)
    os.write(2, b"\\rprogress 100%\\n")
attempt = os.environ["RLX_ATTEMPT_DIR"]
for name in ("metrics.jsonl", "validation/1.jsonl", "events/x.jsonl"):
    with open(f"{attempt}/{name}", "a") as file:
        print(json.dumps({"step": 1, "data": {"note": values}}), file=file)
print("printed", flush=True)
"""
_SCRIPT = f"""
cat <<'END' >show.py
{_PRINT}
END
python3 show.py
while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done
python3 -c 'import os; raise RuntimeError("no login with " + os.environ["TOKEN_OF_A"])'
"""


def new_secrets() -> dict[str, str]:
    """Never the same, so that nothing found here can be from somewhere else."""
    key = base64.encodebytes(secrets.token_bytes(90)).decode()
    return {
        "TOKEN_OF_A": f"hf_{secrets.token_urlsafe(20)}",
        "PASSWORD_OF_B": f'it\'s "{secrets.token_hex(6)}"\\é&/+={secrets.token_hex(3)}',
        "KEY_OF_C": f"-----BEGIN KEY {secrets.token_hex(4)}-----\n{key}-----END KEY {secrets.token_hex(4)}-----\n",
    }


@pytest.fixture
def values() -> dict[str, str]:
    return new_secrets()


def found_in(text: bytes, values: dict[str, str]) -> list[str]:
    return [name for name, value in values.items() if any(form in text for form in forms_of(value))]


@functools.cache
def forms_of(value: str) -> set[bytes]:
    return spellings(value.encode())


def plan(values: dict[str, str], script: str = _SCRIPT, arm: str = "main") -> LaunchPlan:
    return replace(toy_plan(f"cat {LOG}\n{script}", arm=arm, secrets=tuple(values)), backend="verl")


def files_with(values: dict[str, str], *folders: Path) -> dict[str, list[str]]:
    """Also names of files count, and what is hidden."""
    found = {}
    for folder in folders:
        for path in folder.rglob("*"):
            text = os.fsencode(path) + (path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
            if names := found_in(text, values):
                found[str(path)] = names
    return found


class Process(NamedTuple):
    cmdline: bytes
    environ: bytes


def processes_with(values: dict[str, str], what: str) -> list[Process]:
    """Whose `cmdline` or `environ` holds a value, each read once: some live for a tenth of a second."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            process = Process((folder / "cmdline").read_bytes(), (folder / "environ").read_bytes())
        except OSError:
            continue
        if found_in(getattr(process, what), values):
            found.append(process)
    return found


def tmux(*arguments: str) -> bytes:
    return subprocess.run(["tmux", "-L", tmux_socket(), *arguments], capture_output=True, check=False).stdout


def said(*arguments: str) -> bytes:
    done = run_rlx(arguments, timeout_s=60)
    assert b"Traceback (most" not in done.stderr
    return done.stdout + done.stderr


def commands(ref: RunRef, to: Path) -> Iterator[tuple[str, ...]]:
    """Everything that shows or copies something of a run."""
    name = ref.run_id
    yield from (("logs", name), ("logs", name, "--grep", "plain|repr|basic|pieces|login"), ("logs", "-n", "5", name))
    yield from (("status", "-v", name), ("status", "--json", name), ("status", "--all"), ("diagnose", name))
    yield from (("diagnose", "--md", name), ("diagnose", "--json", name), ("compare", name, name), ("show", name))
    yield from (("report", name, "-o", str(to / "report.html")), ("compare", name, name, "--json"), ("leases",))
    yield ("pull", name, "--to", str(to / "pulled"), "--checkpoints")


def test_the_secrets_of_a_run_are_in_its_processes_only(values: dict[str, str], tmp_path: Path) -> None:
    (ref,) = start(plan(values), secrets=values)
    until(lambda: "printed" in log_of(ref), "the stand-in has printed")
    # While it runs: who has them are processes of launch.sh, and no argument, terminal or session has.
    assert processes_with(values, "cmdline") == []
    holders = processes_with(values, "environ")
    assert holders and all(f"RLX_RUN={ref.run_id}".encode() in process.environ.split(b"\0") for process in holders)
    assert not any(b"supervise.sh" in process.cmdline or b"mask_secrets" in process.cmdline for process in holders)
    target = f"={ref.session}"
    seen = tmux("capture-pane", "-p", "-S", "-", "-t", f"{target}:") + tmux("show-environment", "-g")
    assert found_in(seen + tmux("show-environment", "-t", target), values) == []
    assert found_in(log_of(ref).encode(), values) == []
    assert not (ref.run_dir / "env").exists()
    follow = [sys.executable, "-m", "rlx", "logs", "-f", ref.run_id]
    followed = subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (ref.run_dir / "go").touch()
    assert ended(ref).exit_code == 1
    assert found_in(followed.communicate(timeout=60)[0], values) == []
    look_everywhere(ref, values, tmp_path / "to")


def look_everywhere(ref: RunRef, values: dict[str, str], to: Path) -> None:
    to.mkdir()
    for command in commands(ref, to):
        assert found_in(said(*command), values) == [], command
    log = (ref.run_dir / "attempts/1/log").read_bytes()
    assert b"plain ***\n" in log and b"pieces *** of it" in log and b"\rprogress 50% ***\rprogress 100%\n" in log
    assert b"RuntimeError: no login with ***" in log
    places = [Path(os.environ[name]) for name in ("RLX_ROOT", "RLX_LEASES")]
    assert files_with(values, home(), to, *places) == {}
    assert (to / "report.html").exists() and list((to / "pulled").rglob("metrics.jsonl"))


def test_the_log_keeps_all_else_and_the_exit_code(values: dict[str, str]) -> None:
    script = "echo one\nprintf 'two\\r'\nsleep 0.2\nprintf '\\377 three' >&2\nexit 7\n"
    masked, plain = start(plan(values, script), toy_plan(f"cat {LOG}\n{script}", arm="plain"), secrets=values)
    assert (ended(masked).exit_code, ended(plain).exit_code) == (7, 7)
    logs = [(ref.run_dir / "attempts/1/log").read_bytes() for ref in (masked, plain)]
    assert logs[0] == logs[1] == LOG.read_bytes() + b"one\ntwo\r\xff three"


def maskers(ref: RunRef) -> list[int]:
    """The programs that mask, without a script that may start Python."""
    return [pid for pid in marked_processes(ref.run_id) if masks(Path("/proc", str(pid)))]


def masks(process: Path) -> bool:
    try:
        is_python = (process / "exe").readlink().name.startswith("python")
        return is_python and b"mask_secrets.py\0print" in (process / "cmdline").read_bytes()
    except OSError:  # gone
        return False


def test_a_masker_that_is_killed_costs_neither_the_run_nor_a_secret(values: dict[str, str]) -> None:
    go = "while [ ! -e $RLX_RUN_DIR/go ]; do echo tick; sleep 0.05; done\n"
    (ref,) = start(plan(values, f"{go}{_SCRIPT}"), secrets=values)
    for _ in range(3):
        (pid,) = until(lambda: maskers(ref), "it has begun")
        before = len(log_of(ref))
        os.kill(pid, 9)
        until(lambda pid=pid: not is_running(pid), "it is gone")
        until(lambda before=before: len(log_of(ref)) > before, "another one goes on")
    (ref.run_dir / "go").touch()
    assert ended(ref).exit_code == 1
    assert "plain ***\n" in log_of(ref)
    assert found_in(log_of(ref).encode(), values) == []


def test_whoever_outlives_the_training_does_not_hold_up_its_end(values: dict[str, str]) -> None:
    (ref,) = start(plan(values, "setsid sleep 300 &\necho last words\nexit 3\n"), secrets=values)
    seen = ended(ref)
    assert seen.exit_code == 3 and "last words" in log_of(ref)
    assert not marked_processes(ref.run_id)


def test_a_stopped_run_leaves_nothing(values: dict[str, str]) -> None:
    (ref,) = start(plan(values, f"trap '' TERM\n{_SCRIPT}"), secrets=values)
    until(lambda: "printed" in log_of(ref), "the stand-in has printed")
    rlx("stop", "--grace", "1", ref.run_id)
    assert reaches(ref, RunState.STOPPED).members == 0
    assert not marked_processes(ref.run_id)
    assert found_in(log_of(ref).encode(), values) == []


def test_where_there_is_no_python_the_log_says_so(values: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    programs = Path(os.environ["RLX_HOME"]).parent / "programs"
    programs.mkdir()
    for name in ("python3", "python"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (ref,) = start(plan(values, "echo up\nexit 4\n"), secrets=values)
    assert ended(ref).exit_code == 4
    assert log_of(ref).startswith("rlx: ") and log_of(ref).endswith("up\n")
    assert "Python 3.8" in log_of(ref).splitlines()[0]


@pytest.mark.parametrize("value", ["abcdefg", "123456789012345"])
def test_a_secret_that_is_too_short_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, wording: SnapshotAssertion
) -> None:
    monkeypatch.setenv("SHORT", value)
    done = rlx("launch", "-y", "--plan", write_plans(tmp_path / "plan", toy_plan("echo $SHORT", secrets=("SHORT",))))
    warnings = [line for line in done.stderr.splitlines() if "SHORT" in line]
    assert warnings and warnings == wording


def test_the_secrets_of_a_run_in_a_container(
    docker_rig: Rig, container: Container, values: dict[str, str], tmp_path: Path
) -> None:
    host, laptop = docker_rig.host("h1"), Laptop(docker_rig.client, tmp_path / "laptop")
    site = laptop.site("h1", container.name)
    planned = replace(toy(site, _SCRIPT, secrets=tuple(values)), backend="verl")
    (ref,) = laptop.launch(planned, secrets=values)
    until(lambda: "printed" in log_on(host, ref), "the stand-in has printed")
    assert processes_with(values, "cmdline") == []
    lines = [process.cmdline for process in processes_with(values, "environ")]
    assert lines and not any(word in line for line in lines for word in (b"supervise.sh", b"mask_secrets", b"docker"))
    (run_folder(host, ref) / "go").touch()
    laptop.ended(ref)
    to = tmp_path / "to"
    to.mkdir()
    for command in commands(ref, to):
        done = laptop.rlx(*command)
        assert found_in((done.out + done.err).encode(errors="surrogateescape"), values) == [], command
    assert "plain ***\n" in log_on(host, ref)
    assert files_with(values, laptop.home, to, run_folder(host, ref).parent.parent) == {}
    assert list((to / "pulled").rglob("metrics.jsonl"))


def test_what_was_launched_stays_as_it_was(values: dict[str, str]) -> None:
    """A value may be a word of the plan, too: masked there, the run would be told as forged (RLX410)."""
    values = {**values, "TOKEN_OF_A": "launch.sh"}
    (ref,) = start(plan(values, 'echo "told $TOKEN_OF_A"\nexit 3\n'), secrets=values)
    manifest = (ref.run_dir / "manifest.json").read_bytes()
    assert b"launch.sh" in manifest
    assert ended(ref).exit_code == 3
    assert "told ***" in log_of(ref)
    assert (ref.run_dir / "manifest.json").read_bytes() == manifest
    assert "RLX410" not in rlx("status", "-v", ref.run_id).stdout
