from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.evidence import read_evidence, read_log, series


def attempt(folder: Path, log: str = "", metrics: dict[int, float] | None = None, ended: bool = True) -> Path:
    (folder / "state").mkdir(parents=True)
    (folder / "log").write_text(log, encoding="utf-8")
    if ended:
        (folder / "state" / "exit").write_text("0 leader 1 1\n", encoding="utf-8")
    lines = (json.dumps({"step": step, "data": {"a": value}}) + "\n" for step, value in (metrics or {}).items())
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def event(folder: Path, step: int, sigma: float, phase: str = "rollout") -> None:
    (folder / "events").mkdir(exist_ok=True)
    line = json.dumps({"kind": "noise", "phase": phase, "step": step, "sigma": sigma, "layers": 5, "time": step})
    with (folder / "events" / "aqn-h-1.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")


def test_a_bare_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step:1 - a:1\nstep:2 - a:2", encoding="utf-8")
    assert series(read_log(tmp_path / "log"), "a") == {1: 1}
    assert series(read_log(tmp_path / "log", finished=True), "a") == {1: 1, 2: 2}


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "log", tmp_path):
        with pytest.raises(RlxError, match=str(path)):
            read_log(path)


def test_an_attempt_that_has_written_nothing(tmp_path: Path) -> None:
    evidence = read_evidence([tmp_path / "attempts" / "1"])
    assert (evidence.metrics, evidence.last_step, evidence.total_steps, evidence.attempts) == ({}, 0, None, 1)


def test_the_last_line_counts_once_the_attempt_has_ended(tmp_path: Path) -> None:
    running = attempt(tmp_path / "1", "step:1 - a:1\nstep:2 - a:0.2", ended=False)
    ended = attempt(tmp_path / "2", "step:1 - a:1\nstep:2 - a:0.2")
    assert (read_evidence([running]).last_step, read_evidence([ended]).last_step) == (1, 2)


def test_the_metrics_file_wins_and_a_contradiction_shows(tmp_path: Path) -> None:
    folder = attempt(tmp_path / "1", "step:1 - a:0.594 - b:7\nstep:2 - a:0.5\n", {1: 0.59375, 2: 0.25})
    evidence = read_evidence([folder])
    assert series(evidence, "a") == {1: 0.59375, 2: 0.25}
    assert series(evidence, "b") == {1: 7}
    assert [(d.step, d.sources, d.values) for d in evidence.disagreements] == [
        (2, ("console", "metrics.jsonl"), (0.5, 0.25))
    ]


def test_single_precision_prints_agree(tmp_path: Path) -> None:
    folder = attempt(tmp_path / "1", "step:1 - a:np.float32(0.1)\n", {1: 0.10000000149011612})
    assert not read_evidence([folder]).disagreements


def test_a_later_attempt_wins_from_its_first_step_on(tmp_path: Path, wording: SnapshotAssertion) -> None:
    first = attempt(tmp_path / "1", "step:1 - a:1\nstep:2 - a:2 - b:2\nstep:3 - a:3\nstep:4 - a:4\n")
    second = attempt(tmp_path / "2", "Setting global step to 2\nstep:2 - a:20\nstep:3 - a:30\n")
    evidence = read_evidence([first, second])
    assert series(evidence, "a") == {1: 1, 2: 20, 3: 30}
    assert series(evidence, "b") == {2: 2}
    assert [(each.attempt, each.step) for each in evidence.restarts] == [(2, 2)]
    assert evidence.restarts[0].reason == wording
    assert evidence.attempts == 2 and not evidence.disagreements


def test_a_later_attempt_from_the_start_is_a_restart_too(tmp_path: Path, wording: SnapshotAssertion) -> None:
    first = attempt(tmp_path / "1", "Total training steps: 9\nstep:1 - a:1\nstep:2 - a:2\n")
    evidence = read_evidence([first, attempt(tmp_path / "2", "step:1 - a:5\n")])
    assert series(evidence, "a") == {1: 5}
    assert [(each.attempt, each.step) for each in evidence.restarts] == [(2, 1)]
    assert evidence.restarts[0].reason == wording
    assert evidence.total_steps == 9


def test_an_attempt_that_died_at_once_takes_nothing_away(tmp_path: Path) -> None:
    first = attempt(tmp_path / "1", "step:1 - a:1\nstep:2 - a:2\n")
    evidence = read_evidence([first, attempt(tmp_path / "2", "Traceback\n")])
    assert (series(evidence, "a"), evidence.restarts, evidence.attempts) == ({1: 1, 2: 2}, (), 2)


def test_noise_of_the_abandoned_steps_is_forgotten(tmp_path: Path) -> None:
    first = attempt(tmp_path / "1", "", {1: 1, 2: 2, 3: 3})
    for step in (1, 2, 3, 4):
        event(first, step, 0.05)
    event(first, 2, 0.0, "validation")
    second = attempt(tmp_path / "2", "Setting global step to 2\n", {3: 30})
    event(second, 3, 0.01)
    found = {(e.phase, e.step): e.sigma for e in read_evidence([first, second]).noise}
    assert found == {("rollout", 1): 0.05, ("rollout", 2): 0.05, ("validation", 2): 0.0, ("rollout", 3): 0.01}


def test_a_sync_before_the_checkpoint_is_loaded_is_no_beginning(tmp_path: Path) -> None:
    first = attempt(tmp_path / "1", "", {1: 1, 2: 2, 3: 3})
    second = attempt(tmp_path / "2", "Setting global step to 2\n")
    for folder, steps in ((first, (1, 2, 3)), (second, (1, 3))):
        for step in steps:
            event(folder, step, 0.05)
    evidence = read_evidence([first, second])
    assert list(evidence.metrics) == [1, 2]
    assert [e.step for e in evidence.noise] == [1, 2, 1, 3]


def test_console_noise_lines_are_dropped_where_events_say_more(tmp_path: Path) -> None:
    folder = attempt(tmp_path / "1", "[AQN] Applied noise to 5 RMSNorm layers (skipped 0 excluded layers)\n", {1: 1})
    assert [e.step for e in read_evidence([folder]).noise] == [None]
    event(folder, 1, 0.05)
    assert [e.step for e in read_evidence([folder]).noise] == [1]


def test_answers_of_validations_are_counted_and_a_later_attempt_wins(tmp_path: Path) -> None:
    for number, counts in ((1, {0: 3, 5: 2}), (2, {5: 3})):
        folder = attempt(tmp_path / str(number))
        (folder / "validation").mkdir()
        for step, count in counts.items():
            (folder / "validation" / f"{step}.jsonl").write_text('{"acc": 1.0}\n' * count, encoding="utf-8")
        (folder / "validation" / "notes.jsonl").write_text("not a step\n", encoding="utf-8")
    assert read_evidence([tmp_path / "1", tmp_path / "2"]).answers == {0: 3, 5: 3}
