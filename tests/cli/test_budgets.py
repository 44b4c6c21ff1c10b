"""Answers and files that unpack to far more than they are: refused within memory, and nothing stays behind."""

from __future__ import annotations

import gzip
import io
import shutil
import signal
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

import pytest

from rlx.errors import RlxError
from tests.runs.toys import until

MOST_KIB = 200 << 10

PARSE = r"""
import re, sys
from pathlib import Path
from rlx.hosts import Completed
from rlx.hosts.host_errors import HostError
from rlx.errors import RlxError
from rlx.model import Place
from rlx.runs.copies import mirror_store, mirror_wire
answer = Path(sys.argv[1]).read_bytes()
try:
    request = mirror_wire.MirrorRequest("mark", None)
    frames = mirror_wire.frames_of(Place("evil", "evil"), request, Completed(0, answer, b""))
    mirror_store.add(Path(sys.argv[2], "main-1"), frames, 1.0)
    said = "taken"
except (RlxError, ValueError) as error:
    said = "refused"
print(said, re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""

FRAME = b"mark whole 1 0 %d 0 - - main-1/attempts/1/events/a-%d.jsonl\n"
COUNT = b"mark count 1 0 9 0 - - main-1/attempts/1/validation/%d.jsonl\n"
BIG = 60 << 20


def _zeros() -> bytes:
    return b"mark whole 1 0 5 0 - - main-1/a\n" + bytes(300 << 20) + b"mark end\n"


def _many_counts() -> bytes:
    return b"".join(COUNT % n + b"9999999\n" for n in range(2000)) + b"mark end\n"


def _many_frames() -> bytes:
    return b"".join(FRAME % (0, n) for n in range(600_000)) + b"mark end\n"


def _long_header() -> bytes:
    return b"mark " + b" " * (50 << 20) + b"\nmark end\n"


def _honest() -> bytes:
    text = b'{"kind": "noise"}\n' * (BIG // 18)
    return FRAME % (len(text), 1) + text + b"mark end\n"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_zeros, "refused"),
        (_many_counts, "refused"),
        (_many_frames, "refused"),
        (_long_header, "refused"),
        (_honest, "taken"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_an_answer_of_a_mirror(make: object, said: str, tmp_path: Path) -> None:
    (tmp_path / "answer").write_bytes(zlib.compress(make(), 1, wbits=31))  # type: ignore[operator]
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(tmp_path / "answer"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    word, peak = done.stdout.split()
    assert (word, int(peak) < MOST_KIB) == (said, True), done.stdout
    written = sum(path.stat().st_size for path in (tmp_path / "main-1").rglob("*") if path.is_file())
    assert written < 70 << 20


def test_an_archive_of_configuration_with_an_endless_header() -> None:
    from rlx.hosts.installations import _unpack, _UnusableAnswer

    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as out:
        header = tarfile.TarInfo("pax")
        header.type, header.size = tarfile.XHDTYPE, 100 << 20
        out.write(header.tobuf())
        for _ in range(100):
            out.write(bytes(1 << 20))
    with pytest.raises(_UnusableAnswer):
        _unpack(packed.getvalue())


def _bomb(path: Path, mib: int) -> None:
    line = b"step:1 - actor/loss:1.0\n"
    path.write_bytes(gzip.compress(line * ((1 << 20) // len(line))) * mib)


def test_a_log_that_unpacks_to_too_much(tmp_path: Path) -> None:
    _bomb(tmp_path / "log.gz", 1600)
    done = subprocess.run(
        [sys.executable, "-m", "rlx", "import", str(tmp_path / "log.gz"), "--name", "x"],
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 1
    assert "log.gz" in done.stderr and "GiB" in done.stderr
    assert list((tmp_path / "home/adopted/runs").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_import_that_is_ended_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    _bomb(tmp_path / "log.gz", 900)
    process = subprocess.Popen(
        [sys.executable, "-m", "rlx", "import", str(tmp_path / "log.gz"), "--name", "x"], stderr=subprocess.DEVNULL
    )
    runs = tmp_path / "home/adopted/runs"
    until(lambda: list(runs.rglob("log")), "the copy has begun")
    process.send_signal(number)
    assert process.wait(30) != 0
    assert list(runs.iterdir()) == []


def test_a_pull_for_which_there_is_no_room(tmp_path: Path) -> None:
    from rlx.runs.copies.pull import refuse_without_room

    refuse_without_room(tmp_path / "not/there", 1000)
    wanted = shutil.disk_usage(tmp_path).free + (1 << 40)
    with pytest.raises(RlxError, match=f"{wanted >> 10:,} KiB"):
        refuse_without_room(tmp_path / "not/there", wanted)


def test_json_of_a_host_has_a_limit(tmp_path: Path) -> None:
    from rlx.hosts.sent_python import answer_of

    for out in (b"[" + b"[]," * 3_000_000 + b"[]]", b"[" * 100_000, b"[1]", b"null", b"\xff"):
        with pytest.raises(RlxError):
            answer_of(out, b"", 0, "host")
    assert answer_of(b'{"a": 1}', b"", 0, "host") == {"a": 1}
