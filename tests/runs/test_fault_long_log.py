"""A log of 5 GB with endless lines: what is asked of it comes, and rlx stays small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlx.model import RunState
from rlx.runs import RunPaths, RunRef
from tests.rig import Host, Rig
from tests.runs.laptop import GO, Laptop, go, run_folder, toy

LINE = 200_000_000  # bytes; a hole in the file, which costs no disk and reads as NUL bytes
LINES = 24
STEPS = 500_000
MOST_KB = 150_000
STEP = "(TaskRunner pid=7) step:%d - timing_s/step:0.5 - critic/score/mean:0.25\n"


@pytest.fixture
def host(rig: Rig) -> Host:
    return rig.host("h1")


@pytest.fixture
def laptop(rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(rig.client, tmp_path / "home")


@pytest.fixture
def ref(host: Host, laptop: Laptop) -> Iterator[RunRef]:
    """A run that goes on, with such a log."""
    ref = laptop.start(host, toy(laptop.site("h1"), GO + "echo the end\n"))
    log = RunPaths(run_folder(host, ref)).log
    with log.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"".join(b"%d %s\n" % (n, b"y" * 90) for n in range(STEPS)))
        for n in range(LINES):
            file.write(b"needle %d begins" % n)
            file.seek(LINE, 1)
            file.write(b" ends\n")
            file.write((STEP % (n + 1)).encode())
    assert log.stat().st_size > 4.8e9
    yield ref
    log.unlink()


def shown(laptop: Laptop, *argv: str) -> list[bytes]:
    out, most_kb = laptop.measured("logs", *argv)
    assert most_kb < MOST_KB, f"{most_kb} kB"
    return out.splitlines()


def test_a_log_of_5_gb(host: Host, laptop: Laptop, ref: RunRef) -> None:
    last = (STEP % LINES).encode().rstrip()
    before, also_last = shown(laptop, "-n", "2")
    assert also_last == last
    assert before.startswith(b"needle 23 begins") and before.endswith(b"more bytes of this line]")
    assert shown(laptop, "-n", "1", "--grep", "step:[0-9]+ ") == [last]
    seven, seventeen = shown(laptop, "-F", "--grep", "7 begins")
    assert seven.startswith(b"needle 7 begins") and seventeen.startswith(b"needle 17 begins")
    assert len(seven) < 1_200_000, "control characters are shown as four"
    out, most_kb = laptop.measured("status", "--json")
    assert most_kb < MOST_KB, f"{most_kb} kB"
    (row,) = json.loads(out)["runs"]
    assert (row["state"], row["log_bytes"] > 4.8e9) == ("running", True)
    copies = [path for path in (laptop.home / "mirror").rglob("*") if path.is_file()]
    assert copies and sum(path.stat().st_size for path in copies) < 10_000_000
    # A follow begins near the end, and has the end.
    go(host, ref)
    assert shown(laptop, "-f", "-n", "2")[-1] == b"the end"
    assert laptop.ended(ref).state is RunState.FINISHED
