"""A run that somebody started by hand on a host behind a real sshd, and what remains when the host does not answer."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tests.cli.support import rlx
from tests.loopback import Loopback, loopback
from tests.runs.test_adopt import AQN, BASELINE, age, cut, row

__all__ = ["loopback"]


def test_a_log_over_ssh(loopback: Loopback, tmp_path: Path) -> None:
    log, middle = tmp_path / "far: away.log", cut(BASELINE, b"step:7 ")
    log.write_bytes(BASELINE[:middle])
    with log.open("ab") as writer:
        run = rlx("adopt", f"ssh://loop:{log}", "--name", "far").stdout.strip()
        seen = row(run)
        assert (seen["state"], seen["steps_done"]) == ("running", 7)
        loopback.stop()
        loopback.cut()
        writer.write(BASELINE[middle:])
        writer.flush()
        seen = row(run)
        assert (seen["state"], seen["last_known"], seen["steps_done"]) == ("unreachable", "running", 7)
        assert re.search(r"\d\d:\d\d", seen["detail"])
        # What is here can be read all the same, and it is said that it is a copy.
        read = rlx("logs", run, "--grep", "step:7 ")
        assert len(read.stdout.splitlines()) == 1
        assert "copy" in read.stderr and "loop" in read.stderr
        loopback.start()
        assert (row(run)["state"], row(run)["steps_done"]) == ("running", 20)
    age(log)
    assert row(run)["state"] == "finished"
    assert [found["run_id"] for found in rows_of(row(run)["host"])] == [run]


def rows_of(host: str) -> list[dict[str, str]]:
    return list(json.loads(rlx("status", "--host", host, "--json").stdout)["runs"])


def test_a_log_that_starts_anew_while_nobody_can_look(loopback: Loopback, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(BASELINE)
    with log.open("ab"):
        run = rlx("adopt", f"ssh://loop:{log}", "--name", "far").stdout.strip()
        loopback.stop()
        loopback.cut()
        os.truncate(log, 0)
        log.write_bytes(AQN + BASELINE)
        loopback.start()
        seen = row(run)
    assert seen["attempt"] == 2
    assert (Path(seen["run_dir"]) / "attempts/1/log").read_bytes() == BASELINE
    assert (Path(seen["run_dir"]) / "attempts/2/log").read_bytes() == AQN + BASELINE


def test_a_host_that_does_not_answer_has_nothing_to_adopt(loopback: Loopback, tmp_path: Path) -> None:
    loopback.stop()
    loopback.cut()
    rlx("adopt", "ssh://loop:/tmp/x.log", "--name", "far", code=4)
    assert list((tmp_path / "home/adopted/runs").glob("*")) == []
