"""A host that lets rlx in and then says nothing more: its own rows say so, after one deadline for all that is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import rlx
from tests.loopback import loopback
from tests.runs.far import Far, far
from tests.runs.toys import ended, start

__all__ = ["far", "loopback"]

# Reads what rlx says until the connection ends.
_HANGS = "exec cat >/dev/null"
_HOST = "ssh://loop"
# A person would have given up; what used to take two to four minutes.
_GIVES_UP_S = 60


@pytest.fixture
def growing(far: Far) -> Iterator[Path]:
    """A log on the host that somebody writes."""
    path = far.loopback.home / "train.log"
    with path.open("w", encoding="utf-8") as writer:
        print("step:1 - actor/loss:0.5", file=writer, flush=True)
        yield path


def test_a_status_of_a_host_that_hangs_after_login(far: Far, growing: Path) -> None:
    adopted = rlx("adopt", f"{_HOST}:{growing}", "--name", "by-hand").stdout.strip()
    (over,) = start(far.plan("exit 0\n"))
    ended(over)
    (running,) = start(far.plan("sleep 1000\n", arm="running"))
    rlx("status")
    far.loopback.write_bashrc(_HANGS)
    far.loopback.cut()
    for arguments in (("status", "--host", _HOST), ("status", "--all")):
        said = rlx(*arguments, "--json", timeout_s=_GIVES_UP_S)
        rows = {row["run_id"]: row for row in json.loads(said.stdout)["runs"]}
        assert rows[over.run_id]["state"] == "finished", "an end that was seen stays an end"
        for run_id in (running.run_id, adopted):
            assert rows[run_id]["state"] == "unreachable"
            assert re.search(r"\d+ s\b", rows[run_id]["detail"])
    far.loopback.write_bashrc("")
