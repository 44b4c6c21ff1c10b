"""The queue of a partition of Slurm, by what squeue says of its jobs."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, Group
from syrupy.assertion import SnapshotAssertion

from rlx.cli.text.queue_text import job_parts
from rlx.schedulers.protocol import QueuedJob
from rlx.schedulers.slurm.capacity import parse_job, parse_jobs

NOW = 1_795_000_000.0
RUN = "toy-aqn-s1-20261124-170230-9f51"
BEGAN = f"{NOW - 600:.0f}|{NOW - 60:.0f}"


def line(free: str, number: str = "7", state: str = "RUNNING", gres: str = "gres:npu:4", times: str = BEGAN) -> str:
    return f"{number}|{state}|ann|2|{gres}|{times}|{NOW + 3600:.0f}|n[1-2]|None|{free}"


def drawn(jobs: list[QueuedJob], width: int = 100) -> str:
    console = Console(width=width, color_system=None, file=StringIO())
    console.print(Group(*job_parts(jobs, width, NOW)))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("gres", "devices"),
    [("gres:npu:4", "npu:4"), ("gres/npu:910b3:4", "npu:910b3:4"), ("N/A", ""), ("gres:npu:4,gres:fs:1", "npu:4,fs:1")],
)
def test_devices_are_read_as_each_version_writes_them(gres: str, devices: str) -> None:
    assert parse_job(line("(null)|sleep", gres=gres)).devices == devices


@pytest.mark.parametrize(
    ("free", "run_id", "name"),
    [
        (f"rlx:{RUN}|{RUN}", RUN, RUN),
        (f"rlx:{RUN}@3|{RUN}@3", RUN, f"{RUN}@3"),
        (f"see rlx:{RUN}|train", None, "train"),
        (f"rlx:{RUN}|a|b", RUN, "a|b"),
        ("rlx:../../x|y", None, "y"),
    ],
)
def test_a_run_is_known_by_the_whole_comment(free: str, run_id: str | None, name: str) -> None:
    job = parse_job(line(free))
    assert (job.run_id, job.name) == (run_id, name)


def test_times_are_those_of_what_the_job_does() -> None:
    runs = parse_job(line("(null)|x"))
    assert (runs.since, runs.start, runs.end, runs.waits) == (NOW - 60, None, NOW + 3600, False)
    waits = parse_job(line("(null)|x", state="PENDING", times=f"{NOW - 600:.0f}|N/A"))
    assert (waits.since, waits.start, waits.waits) == (NOW - 600, None, True)


@given(st.text(st.characters(exclude_characters="\n"), max_size=60))
def test_whatever_somebody_calls_a_job_is_a_line(free: str) -> None:
    job = parse_job(line(free))
    assert job.number == "7" and "7" in drawn([job])


@pytest.mark.parametrize("name", ["a\nb", "a\u2028b", "a\x0cb|c", "\n7|RUNNING"])
def test_a_name_with_an_end_of_line_costs_nobody_the_queue(name: str) -> None:
    text = f"{line(f'(null)|{name}', '70')}\n{line('(null)|x', '71')}\n"
    assert [job.number for job in parse_jobs(text)] == ["70", "71"]


def test_runs_are_shown_and_of_other_jobs_the_first(wording: SnapshotAssertion) -> None:
    others = [parse_job(line("(null)|train", str(number))) for number in range(100, 130)]
    own = parse_job(line(f"rlx:{RUN}|{RUN}", "99"))
    text = drawn([*others, own])
    assert "toy-aqn-s1" in text and text.count("(train)") == 20
    assert "npu:4" in text and re.search(r"\b10\b", text.splitlines()[-1])
    assert (text.splitlines()[-1], drawn([])) == wording
