"""A host that answers nonsense: it costs its own line, nothing of it reaches the terminal raw, and rlx has no bug."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.model import LaunchPlan, Place
from rlx.runs import Index, RunRef
from rlx.runs.manifest import render_manifest
from tests.cli.support import rlx
from tests.command import run_rlx
from tests.runs.toys import home, toy_plan

_SSH = """#!{sh}
while [ "$1" != -- ]; do shift; done
PATH={folder}/there:$PATH exec {sh} -c "$3"
"""
# The shells of the transport are real; what rlx asks on stdin, one script or several, is answered from a file.
_THERE = """#!{sh}
answer() {{ LC_ALL=C sed "s|@MARK@|$1|g" {folder}/answer; }}
case "$3" in rlx-logs | rlx-pull) answer; exit 0 ;; esac
case "$1 $2" in
    "-s --")
        cat >/dev/null
        answer "$4"
        ;;
    "-s ")
        asked=$(cat)
        part=$(printf '%s\\n' "$asked" | sed -n "s/^printf '%s %s.n' \\([0-9a-f]*\\) .code.*/\\1/p" | head -n 1)
        printf '%s\\n' "$asked" | grep -a '^set -- ' | while read -r _ _ _ mark _; do
            answer "$mark"
            echo "$part 0"
            echo "$part 0" >&2
        done
        ;;
    *) exec {sh} "$@" ;;
esac
"""

_OWNED = b"\x1b]0;owned\x07\xc2\x9b31m"
_GARBAGE = (
    b"",
    b"\n\n",
    b"\xff\x00\xfe" * 50,
    b"file /proc/self/\n",
    b"file /proc/self/ 0 yesterday\n",
    b"file /proc/self/ 0 1e999\n",
    b"file /proc/self/ 0 5\nrun\n",
    b"file /proc/self/ 0 5\nrun main-1 attempt\n",
    b"file /proc/self/ 0 5\nrun main-1 attempt=1 holder=%s supervisor=none leader=none ahead=0\n" % _OWNED,
    b"file /proc/self/ 0 5\nrun main-1 attempt=1 holder=dead supervisor=dead leader=dead ahead=" + b"9" * 5000 + b"\n",
    b"marked RLX_RUN=main-1\0\0\xffRLX_RUN=\0\nfile /proc/self/ 0 5\nrun main-1 attempt=1 holder=dead ahead=0\n",
    b"file /proc/self/ 0 5\nrun main-1 attempt=1 holder=dead supervisor=dead leader=dead ahead=0 exit=1,x,nan\n"
    b"file main-1/state/started 0 -1e300\n",
    b"file /proc/self/ 0 5\nrun main-1 attempt=1 holder=live supervisor=dead leader=dead ahead=0 foreign=%s\n" % _OWNED,
    b"container\nin\nfile x\n",
    _OWNED * 3,
)


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Whatever is asked of any host, this is the answer."""
    folder, sh = tmp_path / "ssh", shutil.which("sh")
    (folder / "there").mkdir(parents=True)
    for path, text in ((folder / "ssh", _SSH), (folder / "there" / "sh", _THERE)):
        path.write_text(text.format(sh=sh, folder=folder), encoding="utf-8")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda answer: (folder / "answer").write_bytes(answer) and None


def ref_there(run_id: str = "main-1") -> RunRef:
    return RunRef(run_id, "launch-1", "toy", "main", 1, Place("me@evil", "me@evil"), "~/rlx", 1e9)


def is_plain(text: str) -> bool:
    return not any((ord(letter) < 32 and letter not in "\n\t") or 0x7F <= ord(letter) < 0xA0 for letter in text)


@pytest.mark.parametrize("garbage", _GARBAGE)
def test_garbage_is_a_line_of_status(garbage: bytes, answers: Callable[[bytes], None]) -> None:
    answers(garbage)
    Index(home()).add(ref_there(), 0)
    document = rlx("status", "--json")
    assert is_plain(document.stdout + document.stderr)
    assert [run["arm"] for run in json.loads(document.stdout)["runs"]] == ["main"]
    shown = rlx("status", "-v")
    assert is_plain(shown.stdout + shown.stderr) and "main" in shown.stdout
    assert [run["state"] for run in json.loads(document.stdout)["runs"]] != ["lost"]
    stopped = rlx("stop", "main-1", code=4)
    assert is_plain(stopped.stdout + stopped.stderr)


@pytest.mark.parametrize("garbage", [_GARBAGE[0], _GARBAGE[2], b"id x\nname y\n", b"error " + _OWNED, _OWNED])
def test_garbage_about_a_container_is_an_error(garbage: bytes, answers: Callable[[bytes], None]) -> None:
    answers(garbage)
    done = rlx("launch", "tiny-cpu", "--host", "me@evil", "--container", "c", code=4)
    assert is_plain(done.stdout + done.stderr)


_EVIDENCE = (
    b"@MARK@ whole 1 0",
    b"@MARK@ whole 1 0 x 0 - - main-1/a\nhello",
    b"@MARK@ whole 1 0 5 0 - - main-1/../../x\nhello",
    b"@MARK@ whole 1 0 5 0 - - main-1/" + b"a" * 300 + b"\nhello",
    b"@MARK@ whole 1 0 5 0 - - main-1/a\0b\nhello",
    b"@MARK@ whole 1 0 5 0 - - main-1/a\nhello@MARK@ whole 2 0 5 0 - - main-1/a/b\nhello",
    b"@MARK@ count 1 0 5 0 - - main-1/attempts/1/validation/1.jsonl\n" + b"9" * 30,
    b"@MARK@ count 1 0 5 0 - - main-1/attempts/1/validation/1.jsonl\n" + b"9" * 12,
    b"@MARK@ denied 1 0 5 0 - - main-1/\xff" + _OWNED + b"\n",
)


@pytest.mark.parametrize("frames", _EVIDENCE)
def test_evidence_that_makes_no_sense_stays_away(frames: bytes, answers: Callable[[bytes], None]) -> None:
    answers(frames + b"@MARK@ end\n")
    Index(home()).add(ref_there(), 0)
    before = {path for path in home().parent.rglob("*") if not path.is_relative_to(home() / "mirror")}
    for arguments in (("status", "-v"), ("status", "--json")):
        done = rlx(*arguments)
        assert is_plain(done.stdout + done.stderr)
    after = {path for path in home().parent.rglob("*") if not path.is_relative_to(home() / "mirror")}
    assert after - before <= {home() / "mirror"}


def manifest(**changes: Any) -> bytes:
    """One whose launch rlx could have made, but for the changes. `plan.name=…` is written `plan__name=…`."""
    plan: LaunchPlan = replace(toy_plan("true"), name="toy", arm="main")
    document = json.loads(render_manifest(ref_there("toy-main-s1-20260101-000000-00aa"), 0, plan))
    for key, value in changes.items():
        *folders, last = key.split("__")
        target = document
        for folder in folders:
            target = target[folder]
        target[last] = value
    return json.dumps(document).encode() + b"\0"


@pytest.mark.parametrize(
    "bad",
    [
        {"run_id": "main"},
        {"run_id": "../../etc"},
        {"run_id": "/etc"},
        {"run_id": "a b"},
        {"run_id": "-rf"},
        {"run_id": "a\nb"},
        {"run_id": ["a"]},
        {"run_id": "\ud800"},
        {"launch_id": "\x1b[2J"},
        {"plan__name": "\x1b[2J"},
        {"plan__arm": 7},
        {"plan__seed": 1 << 80},
        {"position": None},
        {"created_epoch": float("nan")},
        {"created_epoch": "yesterday"},
        {"submitted_by": "me"},
    ],
)
def test_a_bad_manifest_is_no_run_and_costs_no_other(bad: dict[str, Any], answers: Callable[[bytes], None]) -> None:
    Index(home()).begin("digest", "launch-0", [ref_there("kept")])
    good = "toy-main-s1-20260101-000000-00bb"
    answers(manifest(**bad) + b"\0[]\0[[[[\0" + manifest(run_id=good))
    done = rlx("status", "--host", "me@evil", "--json")
    assert is_plain(done.stdout + done.stderr)
    assert [run["run_id"] for run in json.loads(done.stdout)["runs"]] == [good]
    # The journal is still the same: a bad row is no broken index.
    assert Index(home()).pending("digest") is not None
    assert not list(home().glob("*broken*"))


def test_what_a_manifest_says_of_people_is_text(answers: Callable[[bytes], None]) -> None:
    answers(manifest(submitted_by={"user": "\x1b]52;c;cm0gLXJm\x07", "machine": "\x9b2J\u202e\ud800", "rlx": "0"}))
    rlx("status", "--host", "me@evil")
    for arguments in (("status", "-v"), ("status", "--json"), ("status", "--host", "me@evil", "-v")):
        done = rlx(*arguments)
        assert is_plain(done.stdout + done.stderr)


_FRAMES = (
    b"data\n",
    b"data x 5\nhello",
    b"data 5 " + b"9" * 5000 + b"\n",
    b"log 1\n",
    b"log 1 2 3 4 5\n",
    b"log \xff\xfe 1 0 0\n",
    b"log 1 1 0 0\ndata 5 5\nhellodata five 5\n",
    b"x" * 200_000,
)


@pytest.mark.parametrize("frames", _FRAMES)
def test_a_follow_of_frames_that_make_no_sense_ends(frames: bytes, answers: Callable[[bytes], None]) -> None:
    answers(frames)
    Index(home()).add(ref_there(), 0)
    done = rlx("logs", "-f", "main-1", code=4)
    assert is_plain(done.stdout + done.stderr)
    assert "evil" in done.stderr and "  fix: " in done.stderr


_LISTS = (
    b"file " + b"9" * 5000 + b" attempts/1/log\n",
    b"file 5 attempts/1/a\0b\n",
    b"file 5 attempts/1/" + b"a" * 5000 + b"\n",
    b"file -5 attempts/1/log\n",
    b"file 5 attempts\nfile 5 attempts/1/log\n",
    b"denied 0 attempts\n" + b"\xff" * 100,
)


@pytest.mark.parametrize("listed", _LISTS)
def test_a_pull_of_files_that_cannot_be_is_words(
    listed: bytes, answers: Callable[[bytes], None], tmp_path: Path
) -> None:
    answers(listed)
    Index(home()).add(ref_there(), 0)
    done = run_rlx(["pull", "main-1", "--to", str(tmp_path / "to")])
    said = (done.stdout + done.stderr).decode()
    assert done.returncode in (0, 1, 4) and "Traceback" not in said
    assert is_plain(said)


@pytest.mark.parametrize(
    "answer", [b"{}", b'{"files": []}', b'{"files": {"train": {"rows": "x"}, "val": {}}}', b'{"problem": 1}'], ids=repr
)
def test_facts_of_data_files_in_another_form(answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of the host may answer anything."""
    folder = tmp_path / "ssh"
    (folder / "there").mkdir(parents=True)
    for path, text in (
        (folder / "ssh", _SSH.format(sh=shutil.which("sh"), folder=folder)),
        (folder / "there" / "python3", f"#!/bin/sh\ncat >/dev/null\ncat {folder}/answer\n"),
    ):
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    (folder / "answer").write_bytes(answer)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    done = run_rlx(["data", "check", "tiny-cpu", "--host", "me@evil"])
    assert done.returncode in (1, 4), done.stderr
    assert b"me@evil" in done.stderr


def test_a_silent_host_of_several_runs_is_asked_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, calls = tmp_path / "ssh" / "ssh", tmp_path / "calls"
    program.parent.mkdir()
    refused = "ssh: connect to host evil port 22: Connection refused"
    program.write_text(f"#!/bin/sh\necho \"$*\" >>{calls}\necho '{refused}' >&2\nexit 255\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for number in range(3):
        Index(home()).add(ref_there(f"main-{number}"), number)
    one = rlx("logs", "main-0", code=4)
    asked = len(calls.read_text(encoding="utf-8").splitlines())
    several = rlx("logs", code=4)
    assert several.stderr == one.stderr
    assert several.stderr.count("Connection refused") == 1
    assert len(calls.read_text(encoding="utf-8").splitlines()) == 2 * asked
