"""Runs on a host behind a real sshd, judged here: by what was copied, also when the host is gone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.cli.compare import compare
from rlx.errors import ExitCode, RlxError
from rlx.evidence import VerdictStatus
from rlx.model import LOCAL, RunState
from rlx.runs import Index, RunRef, take_snapshots
from rlx.runs.copies import mirror, mirror_wire
from rlx.runs.copies.mirror import refresh
from rlx.runs.judging.judge_runs import judge_runs
from rlx.runs.status.judged_snapshots import judged_snapshots
from tests.cli.support import rlx
from tests.loopback import Loopback, loopback  # noqa: F401 - the fixture
from tests.runs.toys import FOREVER, ended, home, start, toy_plan, until

STEPS = r"""
for step in 1 2 3; do
    seq 2000 | sed 's/^/chatter of a library /'
    echo "(TaskRunner pid=7) step:$step - timing_s/step:0.5 - val-core/toy/acc/mean@1:0.25"
    echo "{\"step\": $step, \"data\": {\"timing_s/step\": 0.5, \"val-core/toy/acc/mean@1\": 0.25}}" \
        >> "$RLX_ATTEMPT_DIR/metrics.jsonl"
done
"""


def start_far(loopback: Loopback, script: str, *arms: str) -> tuple[RunRef, ...]:  # noqa: F811
    plans = [toy_plan(script, arm=arm) for arm in arms]
    return start(*(replace(plan, site=replace(plan.site, place=loopback.place)) for plan in plans))


def copied_log(ref: RunRef) -> Path:
    return home() / "mirror" / ref.run_id / "attempts" / "1" / "log"


def unplug(loopback: Loopback) -> None:  # noqa: F811
    loopback.stop()
    loopback.cut()


def test_a_far_run_is_judged_as_a_near_one_would_be(loopback: Loopback) -> None:  # noqa: F811
    refs = start_far(loopback, STEPS, "baseline", "aqn")
    for ref in refs:
        ended(ref)
    index = Index(home())
    far = judge_runs(index, refs)
    near = judge_runs(index, [replace(ref, place=LOCAL) for ref in refs])
    assert far == near
    assert far[0].state is RunState.FINISHED and far[0].evidence.last_step == 3
    assert copied_log(refs[0]).stat().st_size < (refs[0].run_dir / "latest" / "log").stat().st_size / 100


def test_overview_shows_a_far_run(loopback: Loopback) -> None:  # noqa: F811
    (ref,) = start_far(loopback, STEPS, "main")
    ended(ref)
    (row,) = judged_snapshots(Index(home()), [ref])
    assert (row.state, row.steps_done, row.validation, row.as_of) == (RunState.FINISHED, 3, (3, 0.25), None)
    assert set(row.submitted_by) == {"user", "machine", "rlx"}


def test_a_run_that_is_over_and_copied_needs_no_host(loopback: Loopback) -> None:  # noqa: F811
    (ref,) = start_far(loopback, STEPS, "main")
    ended(ref)
    index = Index(home())
    before = judge_runs(index, [ref])[0]
    unplug(loopback)
    after = judge_runs(index, [ref])[0]
    assert after.as_of is not None
    assert replace(after, as_of=None) == before


def test_of_a_run_that_was_not_over_a_silent_host_is_asked_in_vain(loopback: Loopback) -> None:  # noqa: F811
    (ref,) = start_far(loopback, f"{STEPS}{FOREVER}", "main")
    index = Index(home())
    until(
        lambda: (
            judged_snapshots(index, [ref])[0].steps_done == 3
            and "step:3" in copied_log(ref).read_text(encoding="utf-8")
        ),
        "three steps",
    )
    unplug(loopback)
    with pytest.raises(RlxError) as silent:
        judge_runs(index, [ref])
    assert silent.value.exit_code is ExitCode.UNREACHABLE
    copy = refresh(index, [ref])[ref.run_id]
    assert copy.problem is not None and copy.as_of is not None and copy.end is None
    assert "step:3" in copied_log(ref).read_text(encoding="utf-8")


def test_overview_of_a_silent_host_shows_what_was_known(loopback: Loopback) -> None:  # noqa: F811
    (ref,) = start_far(loopback, f"{STEPS}{FOREVER}", "main")
    index = Index(home())
    before = until(lambda: row if (row := judged_snapshots(index, [ref])[0]).steps_done == 3 else None, "three steps")
    unplug(loopback)
    (row,) = judged_snapshots(index, [ref])
    assert row.state is RunState.UNREACHABLE
    assert row.as_of is not None
    assert (row.steps_done, row.validation, row.evidence) == (3, (3, 0.25), before.evidence)
    assert row.submitted_by == before.submitted_by


def test_an_end_that_was_seen_but_not_copied_convicts_nobody(loopback: Loopback, wording: SnapshotAssertion) -> None:  # noqa: F811
    (ref,) = start_far(loopback, f"{STEPS}until [ -e go ]; do sleep 0.1; done\n", "main")
    index = Index(home())
    until(lambda: judged_snapshots(index, [ref])[0].steps_done == 3, "three steps")
    (ref.run_dir / "go").touch()
    ended(ref)
    unplug(loopback)
    (row,) = judged_snapshots(index, [ref])
    assert row.state is RunState.FINISHED
    assert row.verdict.status is VerdictStatus.UNVERIFIED
    assert row.verdict.sentence == wording


def test_while_a_log_is_copied_nothing_is_concluded(
    loopback: Loopback,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (ref,) = start_far(loopback, f"head -c 30000000 /dev/zero | tr '\\0' '\\n'\n{STEPS}", "main")
    ended(ref)
    monkeypatch.setattr(mirror_wire, "_READ_BYTES", (10 << 20) + 4096)
    monkeypatch.setattr(mirror, "_PATIENCE_S", -1.0)
    index = Index(home())
    verdict = judged_snapshots(index, [ref])[0].verdict
    assert verdict.status is VerdictStatus.UNVERIFIED
    assert "attempts/1/log" in verdict.sentence and "10 of 29 MB" in verdict.sentence
    assert "20 of 29 MB" in judged_snapshots(index, [ref])[0].verdict.sentence
    (judged,) = judge_runs(index, [ref])
    assert "of 29 MB" not in judged.verdict.sentence
    assert judged.evidence.last_step == 3


def test_an_end_that_was_seen_outlives_the_run_directory(loopback: Loopback, wording: SnapshotAssertion) -> None:  # noqa: F811
    """Somebody tidies up, or the disk that holds it is not mounted."""
    script = f"{STEPS}until [ -e $RLX_RUN_DIR/go ]; do sleep 0.1; done\n"
    whole, half = start_far(loopback, script, "whole", "half")
    index = Index(home())
    for ref in (whole, half):
        until(lambda ref=ref: judged_snapshots(index, [ref])[0].steps_done == 3, "three steps")
        (ref.run_dir / "go").touch()
        ended(ref)
    (before,) = judge_runs(index, [whole])
    runs = half.run_dir.parent
    runs.rename(runs.with_name("elsewhere"))
    assert judge_runs(index, [whole]) == [before]
    rows = judged_snapshots(index, [whole, half])
    assert [row.state for row in rows] == [RunState.FINISHED, RunState.FINISHED]
    assert rows[0].observation.detail == wording
    assert rows[1].verdict.status is VerdictStatus.UNVERIFIED and rows[1].verdict.sentence == wording


def test_compare_says_when_it_speaks_from_copies(loopback: Loopback) -> None:  # noqa: F811
    for ref in start_far(loopback, STEPS, "baseline", "aqn"):
        ended(ref)
    plugged = rlx("compare", "--strict", "baseline", "aqn", code=14)
    assert "copy" not in plugged.stderr
    unplug(loopback)
    unplugged = rlx("compare", "--strict", "baseline", "aqn", code=14)
    assert unplugged.stdout == plugged.stdout
    assert len(re.findall(r"copy of 20\d\d-", unplugged.stderr)) == 2


def test_compare_without_a_copy_needs_the_host(loopback: Loopback) -> None:  # noqa: F811
    for ref in start_far(loopback, STEPS, "baseline", "aqn"):
        ended(ref)
    unplug(loopback)
    with pytest.raises(RlxError) as silent:
        compare("baseline", ["aqn"])
    assert silent.value.exit_code is ExitCode.UNREACHABLE


def test_a_far_run_that_logs_to_its_console_only_was_last_known_running(loopback: Loopback) -> None:  # noqa: F811
    (ref,) = start_far(
        loopback, 'for step in 1 2 3; do echo "step:$step - timing_s/step:0.5"; done\n' + FOREVER, "main"
    )
    index = Index(home())
    until(lambda: judged_snapshots(index, [ref])[0].steps_done == 3, "three steps")
    assert {run.state for run in judge_runs(index, [ref])} == {RunState.RUNNING}
    unplug(loopback)
    seen = take_snapshots(index, [ref])[ref.run_id].observation
    assert (seen.state, seen.last_known) == (RunState.UNREACHABLE, RunState.RUNNING)
