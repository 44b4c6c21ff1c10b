from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlx.evidence import NoiseEvent
from rlx.evidence.reading.metrics_file import read_metrics
from rlx.evidence.reading.process_records import read_records
from rlx.evidence.reading.validation_outputs import read_answers

EVENT = {
    "kind": "noise",
    "phase": "rollout",
    "step": 5,
    "sigma": 0.05,
    "layers": 5,
    "skipped": 0,
    "elements": 320,
    "changed": 318,
    "effective_std": 0.0499,
    "replica": 1,
    "time": 20.0,
}


def metrics(tmp_path: Path, text: str) -> dict[int, dict[str, float]]:
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    return read_metrics(tmp_path / "metrics.jsonl").steps


def events(tmp_path: Path, *documents: Any) -> list[NoiseEvent]:
    (tmp_path / "aqn-h-1.jsonl").write_text(
        "".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8"
    )
    return list(read_records(tmp_path).events)


@pytest.mark.parametrize(("asked", "read"), [(0.025, 0.025), (0.0, None), (None, None), ("0.025", None)])
def test_what_was_asked_for_with_factors(asked: object, read: float | None, tmp_path: Path) -> None:
    assert [event.asked_std for event in events(tmp_path, EVENT, {**EVENT, "asked_std": asked})] == [None, read]


def test_both_writers_of_verl(tmp_path: Path) -> None:
    by_json = '{"step": 1, "data": {"a": 0.5, "n": NaN, "big": Infinity}}\n'
    by_orjson = '{"step":2,"data":{"a":1,"n":null,"flag":true,"text":"no","list":[1]}}\n'
    read = metrics(tmp_path, by_json + by_orjson)
    assert read[1]["a"] == 0.5 and math.isnan(read[1]["n"]) and read[1]["big"] == math.inf
    assert read[2].keys() == {"a", "n", "flag"} and math.isnan(read[2]["n"]) and read[2]["flag"] == 1


def test_a_torn_line_hides_nothing_else(tmp_path: Path) -> None:
    text = '{"step":1,"data":{"a":1}}\n{"step":2,"da\n{"step":3,"data":{"a":3}}\n{"step":4,"data":{"a":'
    assert metrics(tmp_path, text) == {1: {"a": 1}, 3: {"a": 3}}


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000 + '"step"',
        '{"step":' + "9" * 5000 + "}",
        '{"step":-1,"data":{"a":1}}',
        '{"step":1.5,"data":{"a":1}}',
        '{"step":true,"data":{"a":1}}',
        '{"step":1,"data":[1]}',
        '"step"',
        '{"step":1,"data":{"a":' + "9" * 400 + "}}",
    ],
)
def test_lines_that_are_no_metrics(tmp_path: Path, line: str) -> None:
    assert metrics(tmp_path, line + '\n{"step":2,"data":{"a":2}}\n').get(2) == {"a": 2}


def test_no_file_is_no_metrics(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl").steps == {}
    assert read_records(tmp_path / "events").events == ()


def test_one_step_twice_with_other_values_is_kept(tmp_path: Path) -> None:
    (tmp_path / "m").write_text('{"step":1,"data":{"a":1}}\n{"step":1,"data":{"a":2}}\n', encoding="utf-8")
    timeline = read_metrics(tmp_path / "m")
    assert timeline.steps == {1: {"a": 2}} and [d.values for d in timeline.disagreements] == [(1, 2)]


def test_an_event_as_the_payload_writes_it(tmp_path: Path) -> None:
    assert events(tmp_path, EVENT) == [
        NoiseEvent(5, 0.05, 5, "rollout", 318, 320, 0.0499, "aqn-h-1.jsonl", 1, skipped=0),
    ]


def test_events_of_all_processes_by_time(tmp_path: Path) -> None:
    (tmp_path / "aqn-h-2.jsonl").write_text(json.dumps({**EVENT, "step": 4, "time": 10.0}) + "\n", encoding="utf-8")
    assert [event.step for event in events(tmp_path, EVENT, {**EVENT, "step": 6, "time": None})] == [4, 5, 6]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"phase": "later"},
        {"step": None},
        {"step": "5"},
        {"sigma": "x"},
        {"layers": -1},
        {"layers": None},
    ],
)
def test_an_event_that_is_none(tmp_path: Path, change: dict[str, Any]) -> None:
    assert events(tmp_path, {**EVENT, **change}) == []


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_no_junk_raises_or_hides_the_line_after_it(tmp_path: Path, junk: bytes) -> None:
    for name in ("metrics.jsonl", "aqn-1.jsonl"):
        (tmp_path / name).write_bytes(junk + b'\n{"step":7,"data":{"a":1}}\n' + json.dumps(EVENT).encode())
    assert read_metrics(tmp_path / "metrics.jsonl").steps[7]["a"] == 1
    assert read_records(tmp_path).events[-1].step == 5


def test_outputs_that_cannot_be_read_are_no_answers_known(tmp_path: Path) -> None:
    (tmp_path / "10.jsonl").write_text('{"score": 1}\n{"score": 0}\n', encoding="utf-8")
    (tmp_path / "20.jsonl").mkdir()
    (tmp_path / "30.jsonl").symlink_to("30.jsonl")
    assert {step: (found.kept.answers, found.kept.read) for step, found in read_answers(tmp_path).items()} == {
        10: (2, 0)
    }


def test_numbers_tell_of_lost_and_doubled_lines(tmp_path: Path) -> None:
    lines = [
        {"kind": "noise", "phase": "rollout", "step": 1 + seq, "sigma": 0.0, "layers": 0, "seq": seq}
        for seq in range(5)
    ]
    end = {"kind": "end", "seq": 5, "count": 6}
    write(tmp_path / "aqn-a-1.jsonl", [*lines, end])
    write(tmp_path / "aqn-a-2.jsonl", [lines[0], lines[2], lines[2], lines[3], end])
    write(tmp_path / "aqn-a-3.jsonl", lines[:2])
    whole, faulty, running = read_records(tmp_path).counts
    assert (whole.lines, whole.lost, whole.doubled, whole.ended) == (6, 0, 0, True)
    assert (faulty.lines, faulty.lost, faulty.doubled, faulty.ended) == (4, 2, 1, False)
    assert (running.lost, running.doubled, running.ended) == (0, 0, False)
    assert [event.step for event in read_records(tmp_path).events].count(3) == 2  # of both writers, each once


def test_what_was_left_and_sent_is_known_as_long_as_no_line_is_lost(tmp_path: Path) -> None:
    def line(seq: int, synced: bool, clean: str, after: str) -> dict[str, Any]:
        return {**EVENT, "seq": seq, "synced": synced, "digest_clean": clean, "digest_after": after}

    lines = [
        {"kind": "settings", "seq": 0},
        line(1, True, "a", "b"),
        {"kind": "probe", "seq": 2},
        line(3, False, "a", "a"),
        line(4, False, "a", "b"),
        line(5, True, "c", "d"),
        line(7, False, "c", "c"),
        line(8, True, "e", "f"),
        line(9, False, "e", "e"),
    ]
    assert [(event.digest_left, event.digest_sent) for event in events(tmp_path, *lines)] == [
        ("", "a"), ("b", "a"), ("a", "a"), ("b", "c"), ("", ""), ("c", "e"), ("f", "e"),
    ]  # fmt: skip


def test_a_clock_that_jumps_does_not_reorder_what_one_process_wrote(tmp_path: Path) -> None:
    write(tmp_path / "aqn-a-1.jsonl", [
        {"kind": "noise", "phase": "rollout", "step": step, "sigma": 0.0, "layers": 0, "time": time}
        for step, time in ((1, 50.0), (2, 9000.0), (3, 51.0), (4, 52.0))
    ])  # fmt: skip
    assert [event.step for event in read_records(tmp_path).events] == [1, 2, 3, 4]


def test_a_count_beyond_all_counting_is_no_record(tmp_path: Path) -> None:
    write(tmp_path / "aqn-a-1.jsonl", [{**EVENT, "layers": 10**320}])
    assert read_records(tmp_path).events == ()


def write(path: Path, documents: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
