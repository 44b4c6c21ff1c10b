"""The answers that a run on another host kept are judged there: with the same ids as those of a run on this machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.evidence import JudgedRun
from rlx.model import LOCAL
from rlx.runs import Index, RunRef
from rlx.runs.copies.answers import bring_summaries
from rlx.runs.copies.mirror import RunFiles, kept
from rlx.runs.judging.judge_runs import judge_runs
from tests.cli.support import rlx
from tests.evidence import test_graded as edits
from tests.loopback import Loopback, loopback  # noqa: F401 - the fixture
from tests.report.bundles import apart
from tests.runs.toys import ended, home, start, toy_plan


def honest(rows: edits.Rows) -> None:
    """Change nothing."""


def copied(rows: edits.Rows) -> None:
    for step, lines in rows.items():
        for number, row in enumerate(lines):
            row["uid"] = f"1b4e28ba-2fa1-4d3b-8a16-{0 if step == 20 else step:04d}{number:08d}"
    for row, other in zip(rows[20], rows[15], strict=True):
        row["uid"] = other["uid"]


@pytest.fixture
def run_with(loopback: Loopback, tmp_path: Path) -> Callable[[edits.Edit], RunRef]:  # noqa: F811
    def run(edit: edits.Edit) -> RunRef:
        rows, folder = edits.recorded(), tmp_path / "answers"
        edit(rows)
        folder.mkdir()
        for step, lines in rows.items():
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"{step}.jsonl").write_text(text, encoding="utf-8")
        plan = toy_plan(f'echo "step:20 - a/b:1"; cp {folder}/*.jsonl "$RLX_ATTEMPT_DIR/validation/"\n')
        (ref,) = start(replace(plan, site=replace(plan.site, place=loopback.place)))
        ended(ref)
        return ref

    return run


def judged(ref: RunRef) -> JudgedRun:
    (run,) = judge_runs(Index(home()), [ref])
    return run


def ids(run: JudgedRun) -> list[str]:
    return [finding.id for finding in run.verdict.findings]


@pytest.mark.parametrize(
    ("edit", "id"),
    [
        (honest, None),
        (edits.extractor_broken, "RLX780"),
        (edits.one_text_for_all, "RLX781"),
        (edits.graded_anew, "RLX782"),
        (copied, "RLX784"),
    ],
)
def test_a_far_run_has_the_findings_of_a_near_one(
    run_with: Callable[[edits.Edit], RunRef], edit: edits.Edit, id: str | None
) -> None:
    ref = run_with(edit)
    before = listed(ref.run_dir)
    far, near = judged(ref), judged(replace(ref, place=LOCAL))
    assert far.evidence.outputs == near.evidence.outputs and far.evidence.outputs[20].read == 100
    assert ids(far) == ids(near)
    graded = {found for found in ids(far) if "RLX780" <= found <= "RLX784"}
    assert id in graded if id else not graded
    assert listed(ref.run_dir) == before, "nothing is changed on the host"


def listed(folder: Path) -> dict[str, float]:
    return {str(path): path.stat().st_mtime for path in sorted(folder.rglob("*"))}


def test_status_sees_it_and_asks_once(
    run_with: Callable[[edits.Edit], RunRef],
    loopback: Loopback,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ref = run_with(edits.extractor_broken)
    said = rlx("status", "-v", "--json", code=None).stdout
    assert "RLX780" in said
    marker = home() / "mirror" / ref.run_id / "answers.json"
    before = marker.stat().st_mtime_ns
    assert "RLX780" in rlx("status", "-v", "--json", code=None).stdout
    assert "RLX780" in ids(judged(ref))
    assert marker.stat().st_mtime_ns == before
    # A reviewer sees what the owner sees, without the host.
    rlx("report", ref.run_id, "--bundle", "evidence.tar.gz", "--allow-unverified", code=None)
    loopback.stop()
    loopback.cut()
    folder = apart(tmp_path / "evidence.tar.gz", tmp_path / "open") / "runs" / ref.run_id / "attempts/1/validation"
    assert (folder / "answers.json").is_file()
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "reviewer"))
    answer = json.loads(rlx("judge", "evidence.tar.gz", "--json", code=None).stdout)
    assert answer["agrees"] is True


@pytest.mark.parametrize("trouble", ["no python", "slow", "gone", "a pipe"])
def test_a_host_that_cannot_say_costs_these_checks_alone(
    run_with: Callable[[edits.Edit], RunRef],
    loopback: Loopback,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
) -> None:
    ref = run_with(edits.extractor_broken)
    programs = loopback.home / "programs"
    programs.mkdir()
    if trouble in ("no python", "slow"):
        python = programs / "python3"
        python.write_text("#!/bin/sh\nexit 127\n" if trouble == "no python" else "#!/bin/sh\nsleep 60\n", "utf-8")
        python.chmod(0o700)
        loopback.write_bashrc(f"PATH={programs}:$PATH\n")
        monkeypatch.setattr("rlx.runs.copies.answers._WHOLE_S", 1.0)
    outputs = ref.run_dir / "attempts/1/validation"
    index = Index(home())
    monkeypatch.setattr("rlx.runs.status.snapshots.bring_summaries", lambda *_, **__: None)
    judged(ref)
    if trouble == "gone":
        for path in outputs.iterdir():
            path.unlink()
    elif trouble == "a pipe":
        (outputs / "20.jsonl").unlink()
        os.mkfifo(outputs / "20.jsonl")
    began = time.monotonic()
    bring_summaries([ref], kept_now(index, ref), whole=True)
    assert time.monotonic() - began < 10
    run = judged(ref) if trouble != "a pipe" else None
    if run is not None:
        assert not any(found.read for found in run.evidence.outputs.values())
        assert "RLX780" not in ids(run)
    assert json.loads((home() / "mirror" / ref.run_id / "answers.json").read_text("utf-8"))["found"] is False


def kept_now(index: Index, ref: RunRef) -> dict[str, RunFiles]:
    return {run_id: replace(copy, problem=None) for run_id, copy in kept(index, [ref]).items()}


def test_a_summary_beside_other_answers_is_not_used(tmp_path: Path) -> None:
    edits.charges(tmp_path, rows := edits.recorded())
    honest_summary = {"rules": "answers 2", "files": {"20.jsonl": {"answers": 7}}}
    for text in ("", "[]", "{", json.dumps(honest_summary)):
        (tmp_path / "validation/answers.json").write_text(text, encoding="utf-8")
        assert edits.charges(tmp_path, rows) == []
