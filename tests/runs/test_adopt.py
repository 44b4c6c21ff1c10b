"""Runs that somebody started by hand: taken in by their log, while it grows, and never touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.cli.track import parse_log
from rlx.errors import RlxError, UsageError
from rlx.model import LOCAL
from rlx.payload import __file__ as payload
from rlx.runs import Index
from rlx.runs.control import attach_command
from rlx.runs.importing.log_copy import Extent, LogCopy, ask_log
from tests.cli.support import rlx
from tests.conftest import CASES, REPOSITORY
from tests.wording import settled

BASELINE = (CASES / "logs/tiny-baseline/log").read_bytes()
AQN = (CASES / "logs/tiny-aqn/log").read_bytes()
SCRIPT = Path(payload).with_name("adopted.sh")


class Writer:
    """A process that writes a log as a training would: it keeps the file open, and writes when told to."""

    def __init__(self, log: Path) -> None:
        with log.open("ab") as stdout:
            self.process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=stdout)
        self.log = log

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        due = self.log.stat().st_size + len(data)
        self.process.stdin.write(data)
        self.process.stdin.flush()
        until(lambda: self.log.stat().st_size >= due)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def until(happened: Callable[[], bool]) -> None:
    for _ in range(600):
        if happened():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def age(log: Path) -> None:
    """Nobody has written for an hour. Where a writer may be unseen, only that tells that there is none."""
    then = time.time() - 3600
    os.utime(log, (then, then))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A path as people choose it."""
    path = tmp_path / "my run: try 2.log"
    path.touch()
    return path


@pytest.fixture
def writer(log: Path) -> Iterator[Writer]:
    writer = Writer(log)
    yield writer
    writer.end()


def adopt(log: Path, *options: str, name: str = "hand") -> str:
    return rlx("adopt", f"local:{log}", "--name", name, *options).stdout.strip()


def row(name: str) -> dict[str, Any]:
    (found,) = json.loads(rlx("status", name, "--json").stdout)["runs"]
    return dict(found)


def cut(data: bytes, after: bytes) -> int:
    return data.index(b"\n", data.index(after)) + 1


def test_a_run_that_grows(log: Path, writer: Writer, wording: SnapshotAssertion) -> None:
    middle = cut(BASELINE, b"step:7 ")
    writer.write(BASELINE[:middle])
    run = adopt(log)
    before = log.stat()
    seen = row(run)
    assert (seen["state"], seen["steps_done"], seen["steps_total"]) == ("running", 7, 20)
    assert seen["verdict"]["status"] == "unverified"
    assert [finding["id"] for finding in seen["verdict"]["findings"]] == ["RLX716"]
    assert f"local:{log}" in seen["detail"]
    assert seen["submitted_by"] == {}
    assert (log.stat().st_mtime_ns, log.stat().st_ino, log.stat().st_size) == (
        before.st_mtime_ns,
        before.st_ino,
        before.st_size,
    )
    writer.write(BASELINE[middle:])
    assert row(run)["steps_done"] == 20
    assert row(run)["state"] == "running"
    writer.end()
    seen = row(run)
    assert seen["state"] == "finished"
    assert settled(seen["detail"], {str(log): "log"}) == wording
    assert seen["last_validation"] is not None
    assert seen["verdict"]["status"] == "unverified"
    assert (Path(seen["run_dir"]) / "latest/log").read_bytes() == BASELINE
    rlx("wait", run)


def test_a_run_whose_process_ended_before_its_last_step_is_lost_a_minute_later(log: Path, writer: Writer) -> None:
    """Some programs open their log anew for each line, so that one without a writer may go on."""
    writer.write(BASELINE[: cut(BASELINE, b"step:7 ")])
    run = adopt(log)
    assert row(run)["state"] == "running"
    writer.end()
    os.utime(log, (time.time() - 70,) * 2)
    assert row(run)["state"] == "lost"


@pytest.mark.parametrize(
    ("had_writer", "quiet_s", "is_written"),
    [(False, 70, True), (False, 1000, False), (True, 30, True), (True, 70, False)],
)
def test_a_log_whose_writer_cannot_be_seen(had_writer: bool, quiet_s: float, is_written: bool) -> None:
    """Such a writer may be another user's, or in a container. One that was seen before has closed the log."""
    assert LogCopy(changed=1000.0, now=1000.0 + quiet_s, had_writer=had_writer).is_written is is_written


def test_a_run_that_ended_a_minute_before_it_is_tracked(log: Path) -> None:
    log.write_bytes(BASELINE)
    os.utime(log, (time.time() - 70,) * 2)
    assert row(adopt(log))["state"] == "finished"


def test_a_run_that_was_killed_is_lost(log: Path, wording: SnapshotAssertion) -> None:
    log.write_bytes(BASELINE[: cut(BASELINE, b"step:7 ")])
    age(log)
    run = adopt(log)
    seen = row(run)
    assert seen["state"] == "lost"
    assert settled(seen["detail"], {str(log): "log"}) == wording
    rlx("wait", run, code=10)


def test_with_a_recipe_the_log_is_held_against_it(log: Path) -> None:
    recipe = str(REPOSITORY / "recipes/tiny-cpu.yaml")
    log.write_bytes(BASELINE[: cut(BASELINE, b"step:7 ")])
    age(log)
    run = adopt(log, "--recipe", recipe, "--arm", "baseline")
    verdict = row(run)["verdict"]
    assert verdict["status"] == "incomplete"
    assert {"RLX803", "RLX701"} <= {finding["id"] for finding in verdict["findings"]}


def test_a_log_of_two_runs_is_not_judged_as_one(log: Path, writer: Writer, wording: SnapshotAssertion) -> None:
    writer.write(BASELINE[: cut(BASELINE, b"step:7 ")])
    run = adopt(log, "--recipe", str(REPOSITORY / "recipes/tiny-cpu.yaml"), "--arm", "baseline")
    os.truncate(log, 0)
    writer.write(AQN)
    verdict = row(run)["verdict"]
    assert verdict["status"] == "unverified"
    assert settled(verdict["sentence"], {str(log): "log"}) == wording


def sees_everybody() -> bool:
    return os.getuid() == 0 and str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"


@pytest.mark.skipif(not sees_everybody(), reason="needs root outside of containers")
def test_who_sees_every_process_knows_the_end_at_once(log: Path) -> None:
    log.write_bytes(BASELINE)
    assert row(adopt(log))["state"] == "finished"


UNSEEN = {
    "another user": ["setpriv", "--reuid=65534", "--clear-groups"],
    "a container": ["unshare", "-pf", "--mount-proc"],
}


@pytest.mark.skipif(not sees_everybody(), reason="needs root outside of containers")
@pytest.mark.parametrize("enter", UNSEEN.values(), ids=UNSEEN)
def test_who_does_not_see_every_process_claims_nothing(enter: list[str]) -> None:
    """Someone else's `sudo docker exec … >x.log` writes to a file of one's own."""
    with tempfile.NamedTemporaryFile(prefix="rlx-test-", dir="/var/tmp") as log:
        os.chown(log.name, 65534, 65534)
        done = subprocess.run(
            [*enter, "sh", "-s", log.name, "0", "0", "0", "9", "MARK"],
            input=SCRIPT.read_bytes(),
            capture_output=True,
            check=True,
        )
    assert done.stdout.split(b"\n")[0].split()[9] == b"-"


def test_an_arm_without_its_noise_is_no_arm(log: Path) -> None:
    log.write_bytes(BASELINE)
    run = adopt(log, "--recipe", str(REPOSITORY / "recipes/tiny-cpu.yaml"), "--arm", "aqn")
    verdict = row(run)["verdict"]
    assert verdict["status"] == "invalid"
    assert "RLX601" in {finding["id"] for finding in verdict["findings"]}


def test_two_logs_compare(tmp_path: Path) -> None:
    recipe = str(REPOSITORY / "recipes/tiny-cpu.yaml")
    for arm, data in (("baseline", BASELINE), ("aqn", AQN)):
        (tmp_path / arm).write_bytes(data)
        age(tmp_path / arm)
        adopt(tmp_path / arm, "--recipe", recipe, "--arm", arm)
    done = subprocess.run(
        [sys.executable, "-m", "rlx", "compare", "baseline", "aqn", "--json"],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode in (0, 14), done.stderr
    assert "val-core" in done.stdout


def test_two_logs_without_a_recipe_compare_as_unverified(tmp_path: Path) -> None:
    for arm, data in (("before", BASELINE), ("after", AQN)):
        (tmp_path / arm).write_bytes(data)
        age(tmp_path / arm)
        adopt(tmp_path / arm, "--arm", arm)
    assert "unverified" in rlx("compare", "before", "after", code=14).stdout
    rlx("compare", "before", "after", "--allow-unverified")


def test_an_overwritten_log_loses_nothing(log: Path, writer: Writer) -> None:
    first = BASELINE[: cut(BASELINE, b"step:7 ")]
    writer.write(first)
    run = adopt(log)
    # The same file, emptied, as `> x.log` does; then longer than what was copied.
    os.truncate(log, 0)
    writer.write(AQN)
    seen = row(run)
    assert seen["attempt"] == 2
    assert "overwritten" in seen["detail"]
    folder = Path(seen["run_dir"])
    assert (folder / "attempts/1/log").read_bytes() == first
    assert (folder / "attempts/2/log").read_bytes() == AQN
    assert (folder / "latest").resolve() == folder / "attempts/2"


def test_a_replaced_log_loses_nothing(log: Path, writer: Writer) -> None:
    writer.write(b"the first\n")
    run = adopt(log)
    log.rename(log.with_suffix(".old"))
    log.write_bytes(b"the first\nand the second\n")
    folder = Path(row(run)["run_dir"])
    assert (folder / "attempts/1/log").read_bytes() == b"the first\n"
    assert (folder / "attempts/2/log").read_bytes() == b"the first\nand the second\n"


def test_a_log_that_is_gone_is_kept(log: Path, writer: Writer, wording: SnapshotAssertion) -> None:
    writer.write(BASELINE)
    run = adopt(log)
    log.unlink()
    seen = row(run)
    assert seen["state"] == "finished"
    assert settled(seen["detail"], {str(log): "log"}) == wording
    assert seen["steps_done"] == 20


def test_once_is_enough(log: Path, wording: SnapshotAssertion) -> None:
    log.write_bytes(BASELINE)
    age(log)
    run = adopt(log)
    refused = rlx("adopt", f"local:{log}", "--name", "again", code=2).stderr
    assert run in refused and settled(refused, {run: "run", str(log): "log"}) == wording
    # The next run has gone to the same file: that is another one, and the first stays what it was.
    log.write_bytes(AQN)
    other = adopt(log, name="again")
    assert (Path(row(run)["run_dir"]) / "latest/log").read_bytes() == BASELINE
    assert (Path(row(other)["run_dir"]) / "latest/log").read_bytes() == AQN


def test_logs(log: Path, writer: Writer) -> None:
    writer.write(b"one\n\x1b[31mtwo\x1b[0m\nthree\n")
    run = adopt(log)
    writer.write(b"four\n")
    assert rlx("logs", run, "-n", "2").stdout.split() == ["three", "four"]
    assert "two" in rlx("logs", run, "--grep", "^.*two").stdout
    assert "\x1b" not in rlx("logs", run).stdout
    following = subprocess.Popen(
        [sys.executable, "-m", "rlx", "logs", run, "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert following.stdout is not None
    assert [following.stdout.readline().strip() for _ in range(4)] == ["one", "two", "three", "four"]
    writer.write(b"five\n")
    assert following.stdout.readline().strip() == "five"
    writer.end()
    if os.geteuid() != 0:
        age(log)
    assert following.communicate(timeout=120) == ("", "")
    assert following.returncode == 0


def test_nothing_of_it_is_stopped(log: Path, writer: Writer, tmp_path: Path, wording: SnapshotAssertion) -> None:
    writer.write(b"one\n")
    run = adopt(log)
    refused = rlx("stop", run, code=2).stderr
    assert f"rlx status {run}" in refused and "local" in refused
    assert settled(refused, {run: "run"}) == wording
    nothing = rlx("stop", "--all", "-y")
    assert nothing.stdout == "" and nothing.stderr == wording
    (ref,) = Index(tmp_path / "home").runs()
    with pytest.raises(RlxError) as caught:
        attach_command(ref, read_only=True)
    assert settled(f"{caught.value.message}\n{caught.value.hint}", {run: "run"}) == wording
    assert writer.process.poll() is None
    assert row(run)["state"] == "running"


def test_a_lost_index_finds_them_again(log: Path, tmp_path: Path) -> None:
    log.write_bytes(BASELINE)
    run = adopt(log)
    (tmp_path / "home/index.db").unlink()
    assert row(run)["steps_done"] == 20


def test_a_large_log_arrives_whole(log: Path) -> None:
    with log.open("wb") as file:
        file.write(b"\0" * 5)
        file.truncate(150 * 1024**2)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    folder = Path(row(adopt(log))["run_dir"])
    until(lambda: rlx("logs", "hand", "-n", "1").stdout == "the end\n")
    assert (folder / "latest/log").stat().st_size == log.stat().st_size


@pytest.mark.parametrize("text", ["a3", "a3:", "a3:x.log", ":/x.log", "/nowhere/x.log", "a3:b:c:/x.log", "a3:/x\0.log"])
def test_what_names_no_log_is_refused(text: str, wording: SnapshotAssertion) -> None:
    with pytest.raises(UsageError) as caught:
        parse_log(text)
    assert caught.value.message == wording


@pytest.mark.parametrize(
    ("text", "destination", "container", "path"),
    [
        ("local:/tmp/x.log", None, None, "/tmp/x.log"),
        ("local:~/x y:z/a.log", None, None, "~/x y:z/a.log"),
        ("me@a3:/tmp/a:/b.log", "me@a3", None, "/tmp/a:/b.log"),
        ("me@a3:verl_npu:/tmp/x.log", "me@a3", "verl_npu", "/tmp/x.log"),
        ("ssh://me@192.0.2.7:2222:/x.log", "ssh://me@192.0.2.7:2222", None, "/x.log"),
        ("ssh://me@192.0.2.7:2222:verl:/x.log", "ssh://me@192.0.2.7:2222", "verl", "/x.log"),
        ("ssh://me@192.0.2.7:verl:/x.log", "ssh://me@192.0.2.7", "verl", "/x.log"),
    ],
)
def test_where_a_log_is(text: str, destination: str | None, container: str | None, path: str) -> None:
    place, found = parse_log(text)
    assert (place.destination, place.inside, found) == (destination, container, path)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["local:/nowhere/x.log", "--name", "a"], 1),
        (["local:/usr", "--name", "a"], 1),
        (["nowhere", "--name", "a"], 2),
        (["local:/etc/hostname", "--name", "../a"], 2),
        (["local:/etc/hostname", "--name", "a", "--arm", "a b"], 2),
        (["local:/etc/hostname", "--name", "a", "--recipe", "tiny-cpu"], 2),
        (["local:/etc/hostname", "--name", "a", "--recipe", "tiny-cpu", "--arm", "b"], 2),
    ],
    ids=["no file", "a folder", "no log", "a name", "an arm", "several arms", "another arm"],
)
def test_what_cannot_be_adopted(arguments: list[str], code: int, tmp_path: Path, wording: SnapshotAssertion) -> None:
    refused = rlx("adopt", *arguments, code=code).stderr
    assert settled(refused, {str(REPOSITORY): "repository"}) == wording
    assert [path for path in (tmp_path / "home/adopted/runs").glob("*")] == []


@pytest.mark.parametrize("shell", [["dash"], ["busybox", "sh"], ["bash"]], ids=" ".join)
def test_every_shell_tells_the_same(shell: list[str], log: Path, writer: Writer) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]}")
    writer.write(b"x" * 5000 + b"\n")
    whole = ask_log(LOCAL, str(log), Extent())
    assert whole is not None
    assert (whole.writers, whole.length, whole.data) == (1, 5001, b"x" * 5000 + b"\n")
    writer.write(b"more\n")
    arguments = [str(log), whole.extent.inode, str(whole.extent.bytes), whole.extent.sum, "3", "MARK"]
    done = subprocess.run([*shell, str(SCRIPT), *arguments], capture_output=True, check=True)
    words = done.stdout.split(b"\n")[0].decode().split()
    assert (words[3:5], words[6], words[9]) == (["5001", "5004"], "5006", "1")
