"""Logs of runs that are over: taken in as they are, judged by what is known, and never changed."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.errors import ExitCode, RlxError
from rlx.runs import Index
from rlx.runs.importing.foreign_runs import import_logs, plan_without_recipe
from tests.cli.support import rlx
from tests.conftest import CASES, REPOSITORY
from tests.wording import settled

BASELINE = (CASES / "logs/tiny-baseline/log").read_bytes()
AQN = (CASES / "logs/tiny-aqn/log").read_bytes()
RECIPE = str(REPOSITORY / "recipes/tiny-cpu.yaml")


def lines(*steps: int, acc: float | None = None) -> bytes:
    value = "" if acc is None else f" - val-core/x/acc/mean@1:{acc}"
    return b"".join(f"step:{step} - training/global_step:{step}{value}\n".encode() for step in steps)


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def taken(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(rlx("import", *arguments, "--json").stdout))


def row(run: str) -> dict[str, Any]:
    (found,) = json.loads(rlx("status", run, "--json").stdout)["runs"]
    return dict(found)


def no_test(control: str, treatment: str) -> str:
    """Say why the comparison of these two has neither a test nor a p-value."""
    (contrast,) = json.loads(rlx("compare", control, treatment, "--json", code=14).stdout)["contrasts"]
    assert (contrast["test"], contrast["p_value"]) == (None, None)
    return str(contrast["no_test"])


def ids(seen: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in seen["verdict"]["findings"]]


def test_a_log_without_a_recipe_is_unverified(tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = tmp_path / "old run: 3.log"
    log.write_bytes(BASELINE)
    before = log.stat()
    run = taken(str(log), "--name", "old", "--val-size", "100")["run_id"]
    seen = row(run)
    assert (seen["state"], seen["steps_done"], seen["steps_total"]) == ("finished", 20, 20)
    assert (seen["verdict"]["status"], ids(seen)) == ("unverified", ["RLX716"])
    assert str(log) in seen["detail"]
    assert settled(seen["detail"], {str(log): "log"}) == wording
    assert seen["submitted_by"] == {}
    assert rlx("logs", run).stdout.encode() != b""
    assert (Path(seen["run_dir"]) / "latest/log").read_bytes() == BASELINE
    assert (log.stat().st_mtime_ns, log.read_bytes()) == (before.st_mtime_ns, BASELINE)
    assert rlx("logs", "-f", run).stdout == rlx("logs", run).stdout
    rlx("wait", run)
    refused = rlx("stop", run, code=2).stderr
    assert f"rlx status -v {run}" in refused
    assert settled(refused, {run: "run"}) == wording


def test_a_recipe_judges_it(tmp_path: Path) -> None:
    log = write(tmp_path / "x.log", BASELINE)
    as_aqn = row(taken(log, "--name", "old", "--recipe", RECIPE, "--arm", "aqn")["run_id"])
    assert (as_aqn["verdict"]["status"], "RLX601" in ids(as_aqn)) == ("invalid", True)
    as_baseline = row(taken(log, "--name", "old", "--recipe", RECIPE, "--arm", "baseline", "--seed", "7")["run_id"])
    assert as_baseline["verdict"]["status"] == "valid"
    assert as_baseline["seed"] == 7


def test_a_log_that_ends_early_is_of_a_lost_run(tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = write(tmp_path / "x.log", BASELINE[: BASELINE.index(b"step:8 ")])
    seen = row(taken(log, "--name", "old")["run_id"])
    assert (seen["state"], seen["verdict"]["status"]) == ("lost", "incomplete")
    assert ids(seen) == ["RLX701", "RLX716"]
    assert settled(seen["detail"], {log: "log"}) == wording
    rlx("wait", "old-main-s1", code=10)


def test_arms_of_one_name_stand_side_by_side(tmp_path: Path) -> None:
    first = taken(write(tmp_path / "a", BASELINE), "--name", "old", "--arm", "before", "--val-size", "100")
    taken(write(tmp_path / "c", lines(1)), "--name", "between")
    second = taken(write(tmp_path / "b", AQN), "--name", "old", "--arm", "after", "--val-size", "100")
    runs = json.loads(rlx("status", "-a", "--json").stdout)["runs"]
    assert [run["run_id"] for run in runs][:2] == [first["run_id"], second["run_id"]]
    assert runs[0]["launch_id"] == runs[1]["launch_id"] != runs[2]["launch_id"]
    done = rlx("compare", "before", "after", code=14)
    assert "RLX718" in done.stdout
    assert "n = 100" in done.stdout


def test_n_is_what_somebody_says(tmp_path: Path, wording: SnapshotAssertion) -> None:
    log, other = write(tmp_path / "x.log", lines(1, acc=0.5)), write(tmp_path / "y.log", lines(1, acc=0.75))
    taken(log, "--name", "old", "--arm", "a", "--val-size", "8")
    taken(other, "--name", "old", "--arm", "b")
    done = rlx("compare", "a", "b", "--json", code=14)
    (contrast,) = json.loads(done.stdout)["contrasts"]
    assert contrast["test"] is None
    assert "(n = 8 " in contrast["no_test"]
    assert contrast["no_test"] == wording
    taken(other, "--name", "new", "--arm", "b", "--val-size", "8")
    (contrast,) = json.loads(rlx("compare", "a", "new-b-s1", "--json", code=14).stdout)["contrasts"]
    assert contrast["test"]["n"] == 8
    refused = rlx("import", log, "--name", "x", "--recipe", RECIPE, "--arm", "aqn", "--val-size", "8", code=2)
    assert "--val-size" in refused.stderr and " 100" in refused.stderr
    assert settled(refused.stderr, {RECIPE: "recipe"}) == wording


def test_gzip_and_metrics_files(tmp_path: Path) -> None:
    packed = write(tmp_path / "x.log.gz", gzip.compress(BASELINE))
    assert row(taken(packed, "--name", "packed")["run_id"])["steps_done"] == 20
    metrics = str(CASES / "logs/tiny-baseline/metrics.jsonl")
    seen = row(taken(metrics, "--name", "metrics")["run_id"])
    assert seen["last_validation"]["step"] == 20
    assert seen["verdict"]["status"] == "unverified"


def test_parts_in_the_order_of_their_steps(tmp_path: Path, wording: SnapshotAssertion) -> None:
    late, early = write(tmp_path / "1.log", lines(3, 4)), write(tmp_path / "2.log", lines(1, 2))
    for log in (late, early):
        os.utime(log, (0, 0))
    answer = taken(late, early, "--name", "parts")
    assert any("2.log, 1.log" in remark for remark in answer["remarks"])
    assert [settled(remark, {str(tmp_path): "folder"}) for remark in answer["remarks"]] == wording
    folder = Path(answer["run_dir"])
    assert (folder / "attempts/1/log").read_bytes() == lines(1, 2)
    assert (folder / "attempts/2/log").read_bytes() == lines(3, 4)
    assert "RLX704" not in ids(row(answer["run_id"]))


def test_attempts_that_repeat_steps(tmp_path: Path, wording: SnapshotAssertion) -> None:
    first = write(tmp_path / "1.log", lines(1, 2) + lines(3, acc=0.5))
    resumed = write(tmp_path / "2.log", b"Setting global step to 2\n" + lines(3, acc=0.25) + lines(4))
    assert "RLX715" not in ids(row(taken(first, resumed, "--name", "resumed")["run_id"]))
    again = write(tmp_path / "3.log", lines(1, 2) + lines(3, acc=0.25))
    seen = row(taken(first, again, "--name", "again")["run_id"])
    (finding,) = [finding for finding in seen["verdict"]["findings"] if finding["id"] == "RLX715"]
    assert all(fact in finding["message"] for fact in ("0.5", "0.25", "step 3", "1.log", "3.log"))
    assert settled(finding["message"], {str(tmp_path): "folder"}) == wording


def test_two_logs_that_claim_to_be_one_run(tmp_path: Path, wording: SnapshotAssertion) -> None:
    (tmp_path / "b").mkdir()
    one = taken(write(tmp_path / "x.log", lines(1, acc=0.5)), "--name", "old", "--arm", "a")["run_id"]
    other = taken(write(tmp_path / "b/x.log", lines(1, acc=0.75) + lines(2)), "--name", "old", "--arm", "a")["run_id"]
    taken(write(tmp_path / "y.log", lines(1, acc=0.25)), "--name", "old", "--arm", "b")
    for run in (one, other):
        seen = row(run)
        assert (seen["verdict"]["status"], "RLX715" in ids(seen)) == ("unverified", True)
        sentence = seen["verdict"]["sentence"]
        assert all(fact in sentence for fact in (f"{tmp_path}/x.log", f"{tmp_path}/b/x.log", "0.5", "0.75", "step 1"))
        assert settled(sentence, {str(tmp_path): "folder"}) == wording
    assert settled(no_test("b", "a"), {one: "run", other: "run"}) == wording
    assert "RLX715" in rlx("compare", "b", one, code=14).stdout
    assert all(fact in no_test("b", one) for fact in ("step 1", "0.5", "0.75"))
    assert no_test("b", one) == wording
    # Whoever knows which one is right removes the other.
    shutil.rmtree(row(other)["run_dir"])
    assert "RLX715" not in ids(row(one))


def test_other_seeds_and_arms_are_other_runs(tmp_path: Path) -> None:
    log = write(tmp_path / "x.log", lines(1, acc=0.5))
    runs = [taken(log, "--name", "old", *more)["run_id"] for more in ((), ("--seed", "2"), ("--arm", "b"))]
    other = taken(write(tmp_path / "y.log", lines(1, acc=0.75)), "--name", "old", "--seed", "3")["run_id"]
    assert all("RLX715" not in ids(row(run)) for run in (*runs, other))


def test_two_seeds_of_one_arm_are_no_two_arms(tmp_path: Path, wording: SnapshotAssertion) -> None:
    for seed, value in (("1", 0.5), ("2", 0.75)):
        log = write(tmp_path / f"{seed}.log", lines(1, acc=value))
        taken(log, "--name", "old", "--arm", "a", "--seed", seed, "--val-size", "8")
    assert no_test("old-a-s1", "old-a-s2") == wording
    assert "p =" not in rlx("compare", "old-a-s1", "old-a-s2", code=14).stdout


def test_once_is_enough(tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = write(tmp_path / "x.log", BASELINE)
    run = taken(log, "--name", "old")["run_id"]
    same = write(tmp_path / "same.log.gz", gzip.compress(BASELINE))
    refused = rlx("import", same, "--name", "old", code=2).stderr
    assert same in refused and run in refused
    named = {run: "run", str(tmp_path): "folder"}
    assert settled(refused, named) == wording
    assert settled(rlx("import", log, same, "--name", "new", code=2).stderr, named) == wording
    assert len(json.loads(rlx("status", "-a", "--json").stdout)["runs"]) == 1
    taken(log, "--name", "new")


REFUSED = {
    "missing": None,
    "empty": b"",
    "binary": b"\x7fELF\0\1\2\xff" * 500,
    "damaged": gzip.compress(BASELINE)[:3000],
    "damaged within": gzip.compress(b"x")[:-6] + b"\0" * 6,
    "utf-16": "step:1 - a:1\n".encode("utf-16"),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_no_log(data: bytes | None, tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = tmp_path / "x.log"
    if data is not None:
        log.write_bytes(data)
    done = rlx("import", str(log), "--name", "old", code=1)
    assert str(log) in done.stderr and "fix:" in done.stderr
    assert settled(done.stderr, {str(log): "log"}) == wording
    assert list((tmp_path / "home/adopted/runs").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["/usr", "--name", "a"], 1),
        (["/dev/null", "--name", "a"], 1),
        ([str(CASES / "logs/tiny-baseline/log"), "--name", "../a"], 2),
        ([str(CASES / "logs/tiny-baseline/log"), "--name", "a", "--recipe", RECIPE], 2),
    ],
    ids=["a directory", "a device", "a name", "several arms"],
)
def test_what_cannot_be_imported(arguments: list[str], code: int, wording: SnapshotAssertion) -> None:
    assert settled(rlx("import", *arguments, code=code).stderr, {str(REPOSITORY): "repository"}) == wording


def test_a_validation_set_has_at_least_one_row() -> None:
    log = str(CASES / "logs/tiny-baseline/log")
    assert "--val-size" in rlx("import", log, "--name", "a", "--val-size", "0", code=2).stderr


def test_a_log_without_metrics_says_so(tmp_path: Path, wording: SnapshotAssertion) -> None:
    frame = b'  File "main.py", line 1, in <module>\n    main()\n'
    crashed = b"Traceback (most recent call last):\n" + frame + b"RuntimeError: boom\nboom"
    log = write(tmp_path / "x.log", crashed)
    os.utime(log, (0, 0))
    done = rlx("import", log, "--name", "old")
    assert settled(done.stderr, {str(tmp_path): "folder", done.stdout.strip(): "run"}) == wording
    assert (row("old-main-s1")["state"], row("old-main-s1")["verdict"]["status"]) == ("lost", "unverified")


def test_what_says_nothing_of_a_run_is_refused(tmp_path: Path, wording: SnapshotAssertion) -> None:
    readme = str(REPOSITORY / "README.md")
    done = rlx("import", readme, "--name", "old", code=2)
    assert readme in done.stderr and "metrics.jsonl" in done.stderr
    assert settled(done.stderr, {readme: "readme"}) == wording
    rlx("import", write(tmp_path / "x.log", BASELINE), readme, "--name", "old", code=2)
    assert list((tmp_path / "home/adopted/runs").iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        b"torch.OutOfMemoryError: NPU out of memory. Tried to allocate 2.00 GiB",
        b"Training Progress:   5%|5         | 1/20 [00:01<00:19,  1.00s/it]",
        b"[AQN] Applied noise to 57 RMSNorm layers (skipped 0 excluded layers)",
        b"Total training steps: 20",
    ],
)
def test_one_line_that_some_command_can_use_is_enough(line: bytes, tmp_path: Path) -> None:
    rlx("import", write(tmp_path / "x.log", b"INFO starting\n" + line + b"\n"), "--name", "old")


def test_a_lost_index_finds_it_again(tmp_path: Path) -> None:
    run = taken(write(tmp_path / "x.log", BASELINE), "--name", "old")["run_id"]
    (tmp_path / "home/index.db").unlink()
    assert row(run)["steps_done"] == 20


def test_a_large_log_takes_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "large.log.gz"
    with gzip.open(log, "wb", compresslevel=1) as packed:
        for step in range(1, 129):
            packed.write(b"chatter of many workers\n" * (1 << 20 // 24) + lines(step))
    program = (
        "import sys; from rlx.cli.frame.app import command_line; command_line()(sys.argv[1:], standalone_mode=False);"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "import", str(log), "--name", "large"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    peak_kb = int(done.stdout.split()[-2])
    assert (tmp_path / "home/adopted/runs").exists()
    assert peak_kb < 120_000, f"{peak_kb} kB"
    assert row("large-main-s1")["steps_done"] == 128


@given(data=st.lists(st.sampled_from([b"step:", b"1 - ", b"a:0.5", b"\n", b"\r", b"\0", b"\xff", b"{}", b"\x1f\x8b"])))
@example(data=[b"\xff\xfe"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_imported_whole_or_refused(data: list[bytes], tmp_path: Path) -> None:
    log = tmp_path / "any.log"
    log.write_bytes(b"".join(data))
    shutil.rmtree(tmp_path / "home", ignore_errors=True)
    try:
        taken = import_logs(Index(tmp_path / "home"), [log], plan_without_recipe("any", "main", 1, "verl"))
    except RlxError as refused:
        assert refused.hint
        return
    assert (taken.ref.run_dir / "latest/log").read_bytes() == log.read_bytes()


def test_other_rows_than_were_said_with_the_import(tmp_path: Path, wording: SnapshotAssertion) -> None:
    log = write(tmp_path / "x.log", BASELINE)
    (finding,) = (
        each
        for each in row(taken(log, "--name", "old", "--val-size", "64")["run_id"])["verdict"]["findings"]
        if each["id"] == "RLX705"
    )
    assert " 64 " in finding["message"] and "100" in finding["message"] and "--val-size 100" in finding["fix"]
    assert (finding["message"], finding["fix"]) == wording


@pytest.mark.parametrize("last", ["nan", "inf"])
def test_a_last_validation_without_a_finite_value_is_no_result(tmp_path: Path, last: str) -> None:
    log = write(tmp_path / "x.log", lines(1, acc=0.5) + lines(2, acc=float(last)))
    seen = row(taken(log, "--name", "old")["run_id"])["verdict"]
    assert seen["status"] == "incomplete"
    assert ("RLX702", 2) in [(finding["id"], finding["step"]) for finding in seen["findings"]]
    assert f"val-core/x/acc/mean@1 is {last}" in seen["sentence"]


def test_a_value_that_is_not_finite_in_between_is_not_the_last(tmp_path: Path) -> None:
    log = write(tmp_path / "x.log", lines(1, acc=float("nan")) + lines(2, acc=0.5))
    assert "RLX702" not in ids(row(taken(log, "--name", "old")["run_id"]))


def test_an_exact_name_goes_before_a_beginning(tmp_path: Path, wording: SnapshotAssertion) -> None:
    for name, log in (("e5", BASELINE), ("e5a", AQN)):
        taken(write(tmp_path / f"{name}.log", log), "--name", name, "--val-size", "100")
    document = json.loads(rlx("compare", "e5", "e5a", "--json", code=14).stdout)
    named = [run for arm in (document["control"], *document["treatments"]) for run in arm["runs"]]
    assert [run["run_id"].partition("-main-")[0] for run in named] == ["e5", "e5a"]
    assert row("e5")["run_id"].startswith("e5-main-")
    refused = rlx("status", "e", code=ExitCode.NO_SUCH_RUN).stderr
    assert settled(refused, {run["run_id"]: run["run_id"].partition("-main-")[0] for run in named}) == wording
