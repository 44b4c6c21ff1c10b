"""A scheduler that another distribution brings, by a folder and an entry point, with real processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.hosts.inventory.host_files import user_file
from rlx.runs import stop
from rlx.schedulers.registry import GROUP
from tests.conftest import REPOSITORY
from tests.plug_ins import install
from tests.runs.toys import FOREVER, ended, see, start, start_one, toy_plan, until
from tests.wording import settled

Rlx = Callable[..., "subprocess.CompletedProcess[str]"]
AT_ONCE = "at_once = tests.schedulers.at_once\n"
HOSTS = """
hosts:
  local: {at_once: {queue: main}}
  other: {ssh: me@other, root: /elsewhere}
"""


@pytest.fixture
def plug_in(tmp_path: Path) -> Path:
    """A folder of installed distributions, with the one that brings `at_once`."""
    folder = tmp_path / "site"
    install(folder, GROUP, AT_ONCE)
    return folder


@pytest.fixture
def rlx(plug_in: Path, tmp_path: Path) -> Iterator[Rlx]:
    """`rlx` in a process that has the distribution on its path."""
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(HOSTS, encoding="utf-8")

    def run(*words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": f"{plug_in}:{REPOSITORY}"}
        done = subprocess.run(
            [sys.executable, "-m", "rlx", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            encoding="utf-8",
            timeout=120,
        )
        assert code in (None, done.returncode), f"{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    yield run
    install(plug_in, GROUP, AT_ONCE)
    run("stop", "--all", "-y", code=None)
    shutil.rmtree(tmp_path / "root", ignore_errors=True)


def state(rlx: Rlx) -> str:
    (row,) = json.loads(rlx("status", "--json").stdout)["runs"]
    return str(row["state"])


def script(folder: Path, text: str) -> str:
    path = folder / "train.sh"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_run_is_launched_seen_stopped_and_begun_again(rlx: Rlx, tmp_path: Path) -> None:
    work = script(tmp_path, f"echo begun\nuntil [ -e {tmp_path}/go ]; do sleep 0.1; done\n")
    run_id = rlx("launch", "--script", work, "--name", "toy", "--host", "local", "-y").stdout.strip()
    until(lambda: "begun" in rlx("logs", run_id).stdout, "it runs")
    assert state(rlx) in ("starting", "running")
    (queue,) = json.loads(rlx("queue", "--json").stdout)["hosts"]
    assert [job["run_id"] for job in queue["jobs"]] == [run_id]
    rlx("stop", run_id, "--grace", "1")
    assert state(rlx) == "stopped"
    rlx("retry", run_id)
    (tmp_path / "go").touch()
    assert "finished" in rlx("wait").stdout
    assert "queue" in rlx("doctor", "local").stdout


def test_an_entry_is_read_by_the_plug_in(rlx: Rlx) -> None:
    hosts = {host["name"]: host for host in json.loads(rlx("hosts", "list", "--json").stdout)["hosts"]}
    assert hosts["local"]["batch"] == {"scheduler": "at_once", "settings": {"queue": "main"}}
    assert "at_once    queue=main\n" in rlx("hosts", "show", "local").stdout
    user_file().write_text(HOSTS.replace("queue: main", "line: main"), encoding="utf-8")
    assert "hosts.local.at_once.line: " in rlx("hosts", "list", code=2).stderr


def test_a_broken_plug_in_costs_its_host_alone(rlx: Rlx, plug_in: Path, tmp_path: Path) -> None:
    install(plug_in, GROUP, "at_once = broken_package\n")
    (plug_in / "broken_package.py").write_text("raise ImportError('no-such-library')\n", encoding="utf-8")
    assert "me@other" in rlx("hosts", "list").stdout
    assert "/elsewhere" in rlx("hosts", "show", "other").stdout
    said = rlx(
        "launch", "--script", script(tmp_path, "true\n"), "--name", "toy", "--host", "local", "-y", code=1
    ).stderr
    assert "at_once (broken_package" in said and "no-such-library" in said


def test_runs_whose_plug_in_is_gone_cost_their_own_lines(
    rlx: Rlx, plug_in: Path, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    go = script(tmp_path, f"until [ -e {tmp_path}/go ]; do sleep 0.1; done\n")
    job = rlx("launch", "--script", go, "--name", "toy", "--host", "local", "-y").stdout.strip()
    install(plug_in, GROUP, "")
    user_file().write_text("hosts: {}\n", encoding="utf-8")
    (own,) = start(toy_plan("true"))
    ended(own)
    rows = {row["run_id"]: row for row in json.loads(rlx("status", "--all", "--json").stdout)["runs"]}
    assert rows[own.run_id]["state"] == "finished"
    assert "'at_once'" in rows[job]["detail"] and rows[job]["detail"] == wording
    assert settled(rlx("stop", job, code=2).stderr, {job: "run"}) == wording
    install(plug_in, GROUP, AT_ONCE)
    assert rlx("stop", job, "--grace", "1").stdout.split()[:2] == [job, "stopped;"]


@pytest.mark.parametrize("name", ["evil", "leases"])
def test_what_a_run_could_have_changed_is_not_executed(name: str, tmp_path: Path, wording: SnapshotAssertion) -> None:
    """Root of a container that shares the folder can write there; what asks about runs is this user's."""
    ref = start_one(FOREVER)
    (ref.run_dir / "request").write_text(f"{name}\n", encoding="utf-8")
    (ref.run_dir / "job").write_text("1 1\n", encoding="utf-8")
    (ref.run_dir / "supervise.sh").write_text(f"touch {tmp_path}/executed\n", encoding="utf-8")
    detail = see(ref).detail
    assert f"'{name}'" in detail and detail == wording
    with pytest.raises(RlxError, match=f"'{name}'|exit 3"):
        stop(ref, 1)
    assert not (tmp_path / "executed").exists()
    (ref.run_dir / "request").unlink()


def test_a_plug_in_that_nobody_names_is_not_loaded(rlx: Rlx, plug_in: Path) -> None:
    install(plug_in, GROUP, "at_once = tests.schedulers.at_once\nother = broken_package\n")
    (plug_in / "broken_package.py").write_text(f"open({str(plug_in / 'loaded')!r}, 'w')\n", encoding="utf-8")
    rlx("hosts", "list")
    rlx("status")
    assert not (plug_in / "loaded").exists()


def test_without_it_the_key_is_unknown(rlx: Rlx, plug_in: Path) -> None:
    install(plug_in, GROUP, "")
    assert "hosts.local.at_once: " in rlx("hosts", "list", code=2).stderr
