"""rlx diagnose on real runs, here and behind an sshd, and on logs of nobody."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.api.diagnosing import diagnose
from rlx.model import Expectations, LaunchPlan, NoiseSchedule, RunState
from rlx.runs import Index, RunRef
from rlx.runs.judging.diagnose_runs import diagnose_runs
from rlx.runs.status.judged_snapshots import judged_snapshots
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.loopback import Loopback, loopback
from tests.runs.toys import FOREVER, ended, home, log_of, start, toy_plan, until
from tests.wording import settled

__all__ = ["loopback"]

OOM = "(WorkerDict pid=9) RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB"
FAILS = rf"""
for number in 1 2 3; do echo chatter of a library $number; done
printf '\033[31m%s\033[0m\n' '{OOM}'
echo 'ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.'
exit 1
"""
STEPS = r"""
for step in 1 2 3 4; do
    echo "(TaskRunner pid=7) step:$step - timing_s/step:0.5 - critic/score/mean:0.5"
    echo "{\"step\": $step, \"data\": {\"timing_s/step\": 0.5}}" >> "$RLX_ATTEMPT_DIR/metrics.jsonl"
done
"""


def answer(*names: str) -> list[dict[str, Any]]:
    document = json.loads(rlx("diagnose", *names, "--json").stdout)
    assert document["schema_version"] == 1
    found: list[dict[str, Any]] = document["runs"]
    return found


def test_a_failed_run_says_why() -> None:
    (ref,) = start(toy_plan(FAILS))
    ended(ref)
    (found,) = answer()
    assert (found["run_id"], found["state"], found["exit_code"]) == (ref.run_id, "failed", 1)
    assert (found["cause"]["id"], found["cause"]["line"], found["cause"]["text"]) == ("RLX804", 4, OOM)
    assert [hit["id"] for hit in found["symptoms"]] == ["RLX814"]
    text = rlx("diagnose", ref.run_id).stdout
    assert "failed (exit code 1)" in text and "line 4" in text and "fix " in text and "\x1b" not in text


def test_status_and_wait_point_to_it() -> None:
    (ref,) = start(toy_plan(FAILS))
    assert f"rlx diagnose {ref.run_id}" in rlx("wait", code=10).stderr
    assert f"rlx diagnose {ref.run_id}" in rlx("status").stderr
    assert "diagnose" not in rlx("--quiet", "status").stderr


def test_a_run_that_went_well_has_nothing_to_explain(wording: SnapshotAssertion) -> None:
    (ref,) = start(toy_plan(STEPS))
    ended(ref)
    (found,) = answer("main")
    assert found["cause"] is None and found["findings"] == [] and found["last_step"] == 4
    assert found["verdict"]["status"] != "invalid" and diagnose(ref.run_id).invalid_verdict is None
    assert settled(rlx("diagnose").stdout, {ref.run_id: "run"}) == wording
    assert "diagnose" not in rlx("status").stderr


def noisy(plan: LaunchPlan) -> LaunchPlan:
    noise = NoiseSchedule((0.0, 0.0, 0.05, 0.05), 2, ("rmsnorm",), "payload", False)
    expected = replace(plan.expectations, noise=noise, total_steps=4)
    return replace(plan, expectations=expected, recipe={"name": "toy"})


def test_an_invalid_verdict_is_explained_before_its_log(wording: SnapshotAssertion) -> None:
    (ref,) = start(noisy(toy_plan(STEPS)))
    ended(ref)
    shown = rlx("diagnose", ref.run_id, code=14).stdout.splitlines()
    assert (
        "finished" in shown[0]
        and shown[1].startswith("  error RLX601 invalid: ")
        and shown[2].startswith("    fix     ")
    )
    assert [settled(line, {ref.run_id: "run"}) for line in shown] == wording
    marked = rlx("diagnose", ref.run_id, "--md", code=14).stdout.splitlines()
    assert marked[2].startswith("- **RLX601 invalid: ") and marked[3].startswith("  - fix: ")
    assert [settled(line, {ref.run_id: "run"}) for line in marked] == wording
    (found,) = json.loads(rlx("diagnose", ref.run_id, "--json", code=14).stdout)["runs"]
    assert found["verdict"]["status"] == "invalid" and found["verdict"]["findings"][0]["id"] == "RLX601"
    # Its id stands before it already.
    assert found["verdict"]["sentence"].removesuffix(" (RLX601)") in shown[1] and shown[1].count("RLX601") == 1
    verdict = diagnose(ref.run_id).invalid_verdict
    assert verdict is not None and verdict.findings[0].id == "RLX601"
    assert verdict.sentence == found["verdict"]["sentence"]


def test_a_failed_run_with_an_invalid_verdict_has_both() -> None:
    (ref,) = start(noisy(toy_plan(STEPS + FAILS)))
    ended(ref)
    shown = rlx("diagnose", ref.run_id, code=14).stdout
    assert re.findall(r"^  (?:error )?(RLX601|RLX804) ", shown, re.MULTILINE) == ["RLX601", "RLX804"], shown


def test_a_run_that_was_killed_shows_its_last_lines(wording: SnapshotAssertion) -> None:
    (ref,) = start(toy_plan("echo the last word; kill -9 $$"))
    ended(ref)
    (found,) = answer()
    assert found["cause"] is None and [finding["id"] for finding in found["findings"]] == ["RLX888"]
    text = rlx("diagnose").stdout
    assert "SIGKILL" in text and "the last word" in text
    assert settled("\n".join(text.splitlines()[:4]), {ref.run_id: "run"}) == wording


def test_a_stopped_run_was_stopped(wording: SnapshotAssertion) -> None:
    ref = stepping(FOREVER)
    rlx("stop", ref.run_id, "-y")
    ended(ref)
    assert answer()[0]["state"] == "stopped"
    assert settled(rlx("diagnose").stdout, {ref.run_id: "run"}) == wording
    assert "diagnose" not in rlx("status").stderr


def test_a_far_run_is_matched_on_its_host(loopback: Loopback) -> None:
    script = f"seq 200000 | sed 's/^/chatter of a library /'\n{FAILS}"
    plan = toy_plan(script)
    near, far = start(plan), start(replace(plan, site=replace(plan.site, place=loopback.place)))
    for ref in (*near, *far):
        ended(ref)
    index = Index(home())
    (here,), (there,) = diagnose_runs(index, near), diagnose_runs(index, far)
    assert here.diagnosis == there.diagnosis
    assert there.diagnosis.cause is not None and there.diagnosis.cause.line == 200004
    copied = home() / "mirror" / far[0].run_id / "attempts" / "1" / "log"
    assert not copied.exists() or copied.stat().st_size < 1000


def test_a_silent_host_keeps_no_other_run_from_being_explained(loopback: Loopback) -> None:
    plan = toy_plan(FAILS)
    refs = (*start(plan), *start(replace(plan, site=replace(plan.site, place=loopback.place))))
    for ref in refs:
        ended(ref)
    loopback.stop()
    loopback.cut()
    done = rlx("diagnose", *(ref.run_id for ref in refs), code=4)
    assert "RLX804" in done.stdout and "loop" in done.stderr


def stepping(script: str) -> RunRef:
    plan: LaunchPlan = replace(
        toy_plan(STEPS + script), expectations=Expectations(9, (), False, None, 1, "auto", None, False)
    )
    (ref,) = start(plan)
    # The last that it writes of a step.
    metrics = ref.run_dir / "attempts/1/metrics.jsonl"
    until(lambda: metrics.exists() and '{"step": 4' in metrics.read_text(encoding="utf-8"), "it has made its steps")
    return ref


def age(ref: RunRef, seconds: float) -> None:
    for name in ("log", "metrics.jsonl"):
        os.utime(ref.run_dir / "attempts" / "1" / name, (time.time() - seconds,) * 2)


def test_a_run_without_a_step_for_long_is_stalled() -> None:
    ref = stepping(FOREVER)
    (row,) = judged_snapshots(Index(home()), [ref])
    assert row.state is RunState.RUNNING
    age(ref, 1200)
    (row,) = judged_snapshots(Index(home()), [ref])
    assert row.state is RunState.STALLED and not row.state.is_terminal and "20 min" in row.observation.detail
    assert "stalled" in rlx("status").stdout
    (found,) = answer(ref.run_id)
    assert found["cause"] is None and [finding["id"] for finding in found["findings"]] == ["RLX890"]


def test_chatter_is_no_progress() -> None:
    ref = stepping("while :; do echo waiting; sleep 0.2; done")
    age(ref, 1200)
    until(lambda: log_of(ref).endswith("waiting\n"), "it goes on to write")
    (row,) = judged_snapshots(Index(home()), [ref])
    assert row.state is RunState.STALLED


def test_a_log_of_nobody_is_explained(tmp_path: Path) -> None:
    log = tmp_path / "old run.log"
    log.write_text(f"step:1 - timing_s/step:0.5\n{OOM}\n", encoding="utf-8")
    (found,) = answer(str(log))
    assert found["run_id"] is None and found["log"] == str(log) and found["cause"]["id"] == "RLX804"
    assert f"{log}: step 1\n" in rlx("diagnose", str(log)).stdout


def test_control_sequences_of_a_log_never_reach_the_terminal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b"\x1b]0;mine\x07\x1b[2J\xc2\x9b31m" + OOM.encode() + b"\x1b[6n\x07\xe2\x80\xae\nlast \x1b[5m\x08words"
    )
    for arguments in ((), ("--json",)):
        shown = rlx("diagnose", str(log), *arguments).stdout
        assert "RLX804" in shown
        assert not set(shown) & {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u202e"} - {"\n"} or arguments
        assert "\x1b" not in shown and "\x9b" not in shown


@pytest.mark.parametrize(("name", "code"), [("gone.log", 2), ("/nowhere/log", 2), ("no-such-run", 12)])
def test_what_is_not_there(name: str, code: int) -> None:
    assert "fix:" in rlx("diagnose", name, code=code).stderr


def test_an_empty_log_and_one_of_nothing_known(tmp_path: Path, wording: SnapshotAssertion) -> None:
    empty, other = tmp_path / "empty.log", tmp_path / "other.log"
    empty.touch()
    other.write_text("hello\n", encoding="utf-8")
    assert settled(rlx("diagnose", str(empty)).stdout, {str(empty): "log"}) == wording
    found = answer(str(empty), str(other))
    assert [one["cause"] for one in found] == [None, None] and [one["log_bytes"] for one in found] == [0, 6]


def test_a_packed_log_is_not_read_as_a_clean_one(tmp_path: Path, wording: SnapshotAssertion) -> None:
    packed = tmp_path / "x.log.gz"
    packed.write_bytes(gzip.compress(b"RuntimeError: NPU out of memory\n"))
    refused = rlx("diagnose", str(packed), code=1)
    assert f"zcat {packed}" in refused.stderr
    assert settled(refused.stderr, {str(packed): "log"}) == wording


def test_status_says_why_only_where_details_are_wanted() -> None:
    (ref,) = start(toy_plan(FAILS))
    ended(ref)
    (why,) = [line for line in rlx("status", "-v").stdout.splitlines() if "RLX804" in line]
    assert f"(line 4: {OOM})" in why
    assert "RLX804" not in rlx("status").stdout


def test_markdown_for_an_issue(tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = tmp_path / "x.log"
    log.write_text(
        f"{OOM} `here` <b>\nray.exceptions.ActorDiedError: The actor died unexpectedly before finishing\n",
        encoding="utf-8",
    )
    shown = rlx("diagnose", str(log), "--md").stdout.splitlines()
    assert shown[0].startswith(f"**{log}: ") and shown[1] == "" and shown[2].startswith("- **RLX804 ")
    assert shown[3] == f"  - line 1: `` {OOM} `here` <b> ``"
    assert any(line.startswith("  - RLX814 ") for line in shown)
    assert [settled(line, {str(log): "log"}) for line in shown] == wording
    refused = rlx("diagnose", str(log), "--md", "--json", code=2).stderr
    assert "--md" in refused and "--json" in refused


def test_iteration_lines_say_that_their_grammar_is_unproven() -> None:
    log = CASES / "console/mindspeed-rl-by-its-source/log"
    assert "RLX724 " in rlx("diagnose", str(log)).stdout
    for arm in ("a", "b"):
        rlx("import", str(log), "--name", "msrl", "--arm", arm)
    assert "RLX724 " in rlx("status", "-v", "msrl-a-s1").stdout
    compared = rlx("compare", "a", "b", "--metric", "base_acc_rewards/mean", code=14).stdout
    assert "warning RLX724 " in compared


@pytest.mark.parametrize("data", [bytes(range(256)) * 50, "step:1 - a:1\n".encode("utf-16")], ids=["binary", "utf-16"])
def test_what_is_no_text_is_not_shown(data: bytes, tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(data)
    done = rlx("diagnose", str(log), code=1)
    assert str(log) in done.stderr and "fix: " in done.stderr and done.stdout == ""
    assert settled(done.stderr, {str(log): "log"}) == wording


def test_what_is_no_file_is_no_run_either(tmp_path: Path, wording: SnapshotAssertion) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        assert settled(rlx("diagnose", str(path), code=2).stderr, {str(tmp_path): "folder"}) == wording


def test_a_log_of_another_tool_and_a_metrics_file_alone(tmp_path: Path, wording: SnapshotAssertion) -> None:
    other, metrics = tmp_path / "other.log", tmp_path / "metrics.jsonl"
    other.write_text("{'loss': 0.5, 'epoch': 1}\n" * 9, encoding="utf-8")
    (found,) = answer(str(other))
    assert (found["cause"], found["findings"], found["last_step"]) == (None, [], None)
    assert settled(rlx("diagnose", str(other)).stdout, {str(other): "log"}) == wording
    values = [{"step": step, "data": {"actor/grad_norm": float("nan") if step > 9 else 1.0}} for step in range(1, 40)]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in values), encoding="utf-8")
    said = rlx("diagnose", str(metrics)).stdout
    assert "metrics.jsonl: step 39" in said and "RLX654" in said
    rlx("import", str(metrics), "--name", "old")
    shown = rlx("diagnose", "old-main-s1", code=14).stdout
    assert shown.splitlines()[-1] == wording
