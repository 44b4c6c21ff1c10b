"""What people and machines do to runs and pipes behind the back of rlx: told in a line, never a traceback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import RunState
from tests.cli.support import rlx
from tests.runs.toys import (
    FOREVER,
    command_lines,
    ended,
    home,
    log_of,
    reaches,
    start,
    start_one,
    state_file,
    toy_plan,
    until,
)
from tests.wording import settled

NAN_STEP = """
line='{"step": 1, "data": {"timing_s/step": 0.5, "val-core/toy/acc/mean@1": NaN}}'
echo "$line" >"$RLX_ATTEMPT_DIR/metrics.jsonl"
"""


def states() -> dict[str, tuple[str, str]]:
    runs = json.loads(rlx("status", "--json").stdout)["runs"]
    return {run["arm"]: (run["state"], run["verdict"]["status"]) for run in runs}


def test_a_removed_run_is_lost_and_the_others_are_still_shown(wording: SnapshotAssertion) -> None:
    gone, kept = start(toy_plan("true", arm="gone"), toy_plan("true", arm="kept"))
    ended(kept)
    shutil.rmtree(gone.run_dir)
    assert states()["gone"] == ("lost", "unverified")
    assert states()["kept"][0] == "finished"
    named = {gone.run_id: "gone run", kept.run_id: "kept run", str(gone.run_dir): "its directory"}
    (told,) = (line for line in rlx("wait", code=10).stdout.splitlines() if gone.run_id in line)
    assert "  lost  " in told and settled(told, named) == wording
    assert settled(rlx("compare", "kept", "gone", code=1).stderr, named) == wording


@pytest.mark.parametrize("damage", ["", '{"schema_version": 1, "run_id": "to', '{"schema_version": 9}'])
def test_a_run_with_a_damaged_manifest_is_shown_and_not_believed(damage: str, wording: SnapshotAssertion) -> None:
    bad, kept = start(toy_plan("true", arm="bad"), toy_plan("true", arm="kept"))
    ended(kept)
    (bad.run_dir / "manifest.json").write_text(damage, encoding="utf-8")
    assert states()["bad"] == ("finished", "unverified")
    (run,) = (run for run in json.loads(rlx("status", "--json").stdout)["runs"] if run["arm"] == "bad")
    assert settled(run["verdict"]["sentence"], {bad.run_id: "run"}) == wording
    assert run["verdict"]["sentence"] in rlx("status", "-v").stdout


def test_a_run_without_manifest_that_still_runs_is_not_called_lost() -> None:
    ref = start_one(FOREVER)
    (ref.run_dir / "manifest.json").unlink()
    assert states()["main"] == ("starting", "unverified")


def test_all_runs_are_also_those_that_another_home_launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert rlx("status").stdout == ""
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "other"))
    (ref,) = start(toy_plan("true"))
    ended(ref)
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "home"))
    assert [run["run_id"] for run in json.loads(rlx("status", "-a", "--json").stdout)["runs"]] == [ref.run_id]


def test_values_that_are_no_numbers_are_null_in_json() -> None:
    (ref,) = start(toy_plan(NAN_STEP))
    ended(ref)
    (run,) = json.loads(rlx("status", "--json").stdout, parse_constant=pytest.fail)["runs"]
    assert run["last_validation"] == {"step": 1, "value": None}


def test_a_follow_into_a_closed_pipe_ends_without_a_word() -> None:
    start_one("while :; do echo line; sleep 0.1; done")
    line = f"{sys.executable} -m rlx logs -f | head -n 1"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=True, timeout=60, encoding="utf-8"
    )
    assert (done.stdout, done.stderr) == ("up\n", "")


def test_a_follow_of_a_lost_run_ends() -> None:
    ref = start_one("echo half; kill -9 $PPID; sleep 600")
    for name in ("supervisor", "leader"):
        until(state_file(ref, name).exists, f"the {name} reports")
    until(lambda: "half" in log_of(ref), "it has printed all")
    state_file(ref, "exit").unlink(missing_ok=True)
    rlx("stop", "--grace", "0", ref.run_id)
    state_file(ref, "exit").unlink(missing_ok=True)
    (ref.run_dir / "stop").unlink(missing_ok=True)
    reaches(ref, RunState.LOST)
    assert rlx("logs", "-f", timeout_s=60).stdout == "up\nhalf\n"


def test_a_follow_that_is_killed_leaves_no_reader_on_the_host() -> None:
    _, reading = start(toy_plan(FOREVER, arm="a"), toy_plan("true", arm="b"))
    follow = subprocess.Popen([sys.executable, "-m", "rlx", "logs", "-f", "b"], stdout=subprocess.PIPE)
    until(lambda: command_lines("rlx-logs follow", str(reading.run_dir)), "the follow reads")
    follow.kill()
    follow.communicate()
    until(lambda: not command_lines("rlx-logs follow", str(reading.run_dir)), "the reader is gone")


def test_a_full_disk_is_no_bug_of_rlx(wording: SnapshotAssertion) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rlx", "recipes"], stdout=full, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
    assert (done.returncode, done.stderr) == (1, wording)
    assert not (home() / "bug.log").exists()


CONSOLE_ONLY = """
echo "step:1 - timing_s/step:0.500 - actor/loss:0.100"
while [ ! -e $RLX_RUN_DIR/go ]; do sleep 0.1; done
"""


def test_a_run_whose_steps_are_on_its_console_only_is_running() -> None:
    ref = start_one(CONSOLE_ONLY)
    until(lambda: states()["main"][0] == "running", "it is seen to make steps")
    assert json.loads(rlx("status", "--json").stdout)["runs"][0]["steps_done"] == 1
    (ref.run_dir / "go").touch()
    ended(ref)
    assert states()["main"][0] == "finished"
