"""A laptop whose own programs come before the ones that scripts are written for: BSD's, busybox's, or broken ones.

Logs that were taken in are read on the laptop itself, so what rlx says of them depends on its programs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import rlx
from tests.devices import put_program
from tests.runs.test_import import lines, taken, write

# What the BSDs know of these three: other letters, and complaints about those of GNU.
_BSD = {
    "stat": r"""
follow= format=
while getopts c:f:L letter; do
    case $letter in
        c) echo "stat: illegal option -- c" >&2; exit 1 ;;
        f) format=$(printf '%s' "$OPTARG" | sed 's/%z/%s/g; s/%N/%n/g; s/%m/%Y/g; s/%Su/%U/g') ;;
        L) follow=-L ;;
    esac
done
shift $((OPTIND - 1))
exec REAL $follow ${format:+-c "$format"} "$@"
""",
    "sed": 'for word; do case $word in -i|-z|-s) echo "sed: illegal option" >&2; exit 1 ;; esac; done\nexec REAL "$@"',
    "date": 'for word; do case $word in -d|--*|-I*|*%N*) echo illegal >&2; exit 1 ;; esac; done\nexec REAL "$@"',
    "sha256sum": "echo 'sha256sum: command not found' >&2; exit 127",
    "cksum": 'exec REAL "$@"',
}
_OF_BUSYBOX = (
    *("stat", "sed", "date", "awk", "grep", "head", "tail", "wc", "find", "tr", "cut"),
    *("xargs", "fold", "readlink", "ls", "sort", "gzip", "sha256sum"),
)


def bsd(folder: Path) -> None:
    for name, script in _BSD.items():
        put_program(folder, name, script.replace("REAL", shutil.which(name) or name))


def busybox(folder: Path) -> None:
    for name in _OF_BUSYBOX:
        (folder / name).symlink_to(shutil.which("busybox") or "/bin/busybox")


def no_stat_at_all(folder: Path) -> None:
    put_program(folder, "stat", "exit 1")


TOOLS = [bsd, busybox, no_stat_at_all]
FAILURE = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def said(*arguments: str) -> str:
    """What it prints, whatever it ends with."""
    return subprocess.run(
        [sys.executable, "-m", "rlx", *arguments], capture_output=True, text=True, check=False, encoding="utf-8"
    ).stdout


@pytest.fixture(params=TOOLS, ids=lambda tools: tools.__name__)
def tools(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    request.param(folder)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_an_imported_log_is_read_all_the_same(tools: None, tmp_path: Path) -> None:
    log = write(tmp_path / "old.log", lines(1, 2, 3, acc=0.5) + FAILURE)
    taken(log, "--name", "old")
    assert rlx("logs", "old", "--grep", "OutOfMemory").stdout == FAILURE.decode()
    assert rlx("logs", "old", "-n", "1").stdout == FAILURE.decode()
    assert "OutOfMemoryError" in said("diagnose", log)
    assert "OutOfMemoryError" in said("diagnose", "old")


def test_a_pull_brings_the_files_or_says_why_not(tools: None, tmp_path: Path) -> None:
    data = lines(1, 2, 3, acc=0.5)
    taken(write(tmp_path / "old.log", data), "--name", "old")
    pulled = rlx("pull", "old", "--to", str(tmp_path / "pulled"))
    assert "verified" in pulled.stdout + pulled.stderr
    assert any(path.read_bytes() == data for path in (tmp_path / "pulled").rglob("*") if path.is_file())


def test_an_adopted_log_is_followed_or_refused_with_the_reason(tools: None, tmp_path: Path) -> None:
    log = write(tmp_path / "live.log", lines(1, 2, acc=0.5))
    with Path(log).open("ab") as writer:
        command = [sys.executable, "-m", "rlx", "adopt", f"local:{log}", "--name", "live"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, encoding="utf-8")
        if answer.returncode:
            assert "stat" in answer.stderr
            return
        writer.write(lines(3, acc=0.5))
        writer.flush()
        assert rlx("logs", "live", "-n", "1").stdout.strip() in lines(3, acc=0.5).decode()
