"""What is concluded of the Ray jobs of a run: whose exit code counts, and which lines of their logs are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.payload.ray_jobs import Attempt, Job, code_of

HERE = "http://127.0.0.1:8265"


def job(status: str, code: str = "", *, outlived: bool = False, told: bool = False) -> Job:
    return Job(status, code, "", "j1", HERE, outlived=outlived, told=told)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    (tmp_path / "state").mkdir()
    return Attempt(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("status", "driver", "code"),
    [
        ("SUCCEEDED", 0, 0),
        ("SUCCEEDED", None, 0),
        ("FAILED", 3, 3),
        ("FAILED", -9, 137),
        ("FAILED", None, 1),
        ("FAILED", 0, 1),
        ("FAILED", 256, 255),
        ("FAILED", "3", 1),
        ("STOPPED", None, 143),
    ],
)
def test_the_exit_code_of_a_job(status: str, driver: object, code: int) -> None:
    assert code_of(status, driver) == code


@pytest.mark.parametrize(
    ("script", "jobs", "code"),
    [
        (0, [], 0),
        (4, [], 4),
        (0, [job("SUCCEEDED", "0")], 0),
        (4, [job("SUCCEEDED", "0")], 4),
        (1, [job("SUCCEEDED", "0", outlived=True)], 0),
        (0, [job("FAILED", "3")], 3),
        (1, [job("FAILED", "3", outlived=True)], 3),
        # The script went on after the first one.
        (0, [job("FAILED", "3"), job("SUCCEEDED", "0")], 0),
        (0, [job("FAILED", "3", outlived=True), job("SUCCEEDED", "0", outlived=True)], 3),
        (0, [job("SUCCEEDED", "0", outlived=True), job("STOPPED", "143", outlived=True)], 143),
    ],
)
def test_whose_exit_code_is_that_of_the_run(attempt: Attempt, script: int, jobs: list[Job], code: int) -> None:
    attempt.script, attempt.jobs = script, jobs
    assert attempt.end_code() == code


@pytest.mark.parametrize(
    ("log", "printed"),
    [
        ("before\na\nb\nc\nafter\n", "a\nb\nc\n"),
        ("before\na\nother\nb\n", "a\nb\n"),
        ("a\n***\n", "a\n"),
        ("***\nb\nother\n", "a\nb\n"),
        ("other\n", ""),
        ("", ""),
    ],
)
def test_which_lines_of_a_job_its_submitter_has_printed(attempt: Attempt, log: str, printed: str) -> None:
    (attempt.attempt / "log").write_text(log, encoding="utf-8")
    assert attempt.bytes_printed(b"a\nb\nc\n") == len(printed)


def test_what_was_submitted_is_read_whatever_else_stands_there(attempt: Attempt) -> None:
    good = {"submission_id": "j1", "address": f"{HERE}/", "at": 1, "ray": "/r/ray", "own": True, "wait": False}
    bad = [{"submission_id": "a b", "address": HERE}, {"submission_id": "-x", "address": HERE}, {"address": HERE}]
    bad += [{"submission_id": "j2", "address": "auto"}, {"submission_id": "j3", "address": "http://h 1"}]
    lines = [json.dumps(good), "", "[]", "nothing", json.dumps(good), *map(json.dumps, bad), '{"submission_id": "cut']
    (attempt.attempt / "ray_jobs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    attempt.find_submitted()
    assert attempt.jobs == [Job("UNSEEN", "", "", "j1", HERE, own=True)]


def test_the_state_is_read_as_it_was_written(attempt: Attempt) -> None:
    jobs = [Job("RUNNING", "", "17", "j1", HERE, own=True, printed=True, read=9), job("FAILED", "3", told=True)]
    attempt.jobs, attempt.script = list(jobs), 0
    attempt.save(over=False)
    text = (attempt.attempt / "state/ray_jobs").read_text(encoding="utf-8")
    assert text.startswith(f"open - RUNNING 17 j1 {HERE}\n")
    attempt.load()
    assert attempt.jobs == jobs
