from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.evidence import Evidence, read_evidence
from rlx.evidence.cache import parser_state as saved
from rlx.runs.judging import parser_cache as parsed
from rlx.runs.judging.parser_cache import ParsedFiles
from tests.conftest import CASES

RECORDED = (CASES / "logs" / "tiny-aqn" / "log").read_bytes()
FILES = {"log": RECORDED, "metrics.jsonl": (CASES / "logs" / "tiny-aqn" / "metrics.jsonl").read_bytes()}


@pytest.fixture(scope="module", autouse=True)
def _small_files_are_kept_too() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved, "WORTH_BYTES", 1)
        yield


def attempt(folder: Path) -> Path:
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    return folder


def told(evidence: Evidence) -> str:
    """NaN equals nothing, but it prints as itself."""
    rows = {step: dict(sorted(values.items())) for step, values in evidence.metrics.items()}
    rest = [getattr(evidence, field.name) for field in fields(evidence) if field.name not in ("metrics", "digest")]
    return repr((rows, *rest))


def kept(home: Path) -> list[Path]:
    return sorted((home / "parsed").iterdir())


LINES = (
    *RECORDED.splitlines(keepends=True)[-200:],
    b"step:1 - a:0.5\nstep:2 - a:nan\n",
    b"step:2 - b:1\n",
    b"step:3 - a:1 - b:inf\n",
    b"Setting global step to 2\n",
    b"(a pid=1) [AQN] Noise injection - Step: 1/2, Sigma ID: 0, Sigma: 0.5\n",
    b"(a pid=1) [AQN] Applied noise to 5 RMSNorm layers (skipped 0 excluded layers)\n",
    b"dataset len: 7\n",
    b"x iteration: 4 / 9 | a : 0.5\n",
    b"step:7 - a:0.25 - half a li",
    b"Training Progress: 5%|  | 3/9 [00:02<00:44]\r",
)
TEXT = st.lists(st.sampled_from(LINES), max_size=8).map(b"".join)
CHANGES = st.lists(st.tuples(st.sampled_from(["append", "replace", "rewrite", "truncate"]), TEXT), max_size=8)


def change(log: Path, how: str, text: bytes) -> None:
    if how == "append":
        with log.open("ab") as file:
            file.write(text)
    elif how == "replace":
        aside = log.with_name("aside")
        aside.write_bytes(text)
        aside.replace(log)
    elif how == "rewrite":
        log.write_bytes(text)
    else:
        os.truncate(log, log.stat().st_size // 2)


@settings(deadline=None, max_examples=60)
@given(CHANGES)
def test_a_log_says_the_same_with_and_without_what_is_kept_of_it(changes: list[tuple[str, bytes]]) -> None:
    with TemporaryDirectory() as folder:
        run, states = attempt(Path(folder) / "1"), ParsedFiles(Path(folder))
        for how, text in changes:
            change(run / "log", how, text)
            assert told(read_evidence([run], states)) == told(read_evidence([run]))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, len(RECORDED)), max_size=12))
def test_a_log_that_grew_in_any_steps_says_what_the_whole_says(cuts: list[int]) -> None:
    with TemporaryDirectory() as folder:
        run, states = attempt(Path(folder) / "1"), ParsedFiles(Path(folder))
        whole = told(read_evidence([run]))
        for end in sorted(cuts):
            (run / "log").write_bytes(RECORDED[:end])
            read_evidence([run], states)
        (run / "log").write_bytes(RECORDED)
        assert told(read_evidence([run], states)) == whole


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    """The beginning that was read before is made unreadable as metrics, beyond what the state is checked by."""
    (run := tmp_path / "1").mkdir()
    log, filler, states = run / "log", b"chatter\n" * 20_000, ParsedFiles(tmp_path)
    log.write_bytes(filler + b"step:1 - a:1\n" + filler)
    read_evidence([run], states)
    with log.open("r+b") as file:
        file.seek(len(filler))
        file.write(b"STEP")
        file.seek(0, os.SEEK_END)
        file.write(b"step:2 - a:2\n")
    assert read_evidence([run], states).metrics == {1: {"a": 1}, 2: {"a": 2}}


def test_a_log_written_to_without_growing_is_read_anew(tmp_path: Path) -> None:
    (run := tmp_path / "1").mkdir()
    log, filler, states = run / "log", b"chatter\n" * 20_000, ParsedFiles(tmp_path)
    log.write_bytes(filler + b"step:1 - a:1\n" + filler)
    read_evidence([run], states)
    with log.open("r+b") as file:
        file.seek(len(filler))
        file.write(b"step:1 - a:7\n")
    os.utime(log, ns=(1, 1))
    assert read_evidence([run], states).metrics == {1: {"a": 7}}


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "text", "folder"])
def test_what_is_damaged_is_read_anew(tmp_path: Path, damage: str) -> None:
    run, states = attempt(tmp_path / "1"), ParsedFiles(tmp_path)
    whole = told(read_evidence([run], states))
    assert len(kept(tmp_path)) == 2
    for path in kept(tmp_path):
        data = path.read_bytes()
        if damage == "folder":
            path.unlink()
            path.mkdir()
            continue
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 1
        path.write_bytes({"empty": b"", "short": data[:-9], "flipped": bytes(flipped), "text": b"x" * 99}[damage])
    assert told(read_evidence([run], states)) == whole


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    run = attempt(tmp_path / "1")
    (tmp_path / "parsed").write_text("a file is in the way", encoding="utf-8")
    assert told(read_evidence([run], ParsedFiles(tmp_path))) == told(read_evidence([run]))


def test_another_version_of_the_rules_reads_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, states = attempt(tmp_path / "1"), ParsedFiles(tmp_path)
    read_evidence([run], states)
    monkeypatch.setattr("rlx.evidence.reading.console.RULES", "console of tomorrow")
    assert told(read_evidence([run], states)) == told(read_evidence([run]))
    assert len(kept(tmp_path)) == 3


def test_many_readers_of_a_log_that_grows_agree_with_it(tmp_path: Path) -> None:
    (run := tmp_path / "1").mkdir()
    (run / "log").touch()

    def read(_: int) -> bool:
        metrics = read_evidence([run], ParsedFiles(tmp_path)).metrics
        return list(metrics) == list(range(1, len(metrics) + 1)) and all(row == {"a": s} for s, row in metrics.items())

    with ThreadPoolExecutor(4) as pool:
        for step in range(1, 60):
            with (run / "log").open("ab") as log:
                log.write(b"step:%d - a:%d\n" % (step, step))
            assert all(pool.map(read, range(4)))
    assert read_evidence([run], ParsedFiles(tmp_path)).last_step == 59
    assert len(kept(tmp_path)) == 1


def test_the_oldest_go_when_it_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = ParsedFiles(tmp_path)
    for age, name in enumerate("abcd"):
        states.save(name, [b"x" * 92])
        os.utime(tmp_path / "parsed" / name, (when := (tmp_path / "parsed" / name).stat().st_mtime - 9 + age, when))
    monkeypatch.setattr(parsed, "MOST_BYTES", 300)
    states.save("e", [b"x" * 92])
    assert [path.name for path in kept(tmp_path)] == ["c", "d", "e"]
    os.utime(tmp_path / "parsed" / "c", (0, 0))
    states.save("e", [b"x" * 9])
    assert len(kept(tmp_path)) == 3, "not at each file"
    states.save("e", [b"x" * 30])
    assert [path.name for path in kept(tmp_path)] == ["d", "e"]


def test_a_copied_run_keeps_its_own_state(tmp_path: Path) -> None:
    run, states = attempt(tmp_path / "1"), ParsedFiles(tmp_path)
    read_evidence([run], states)
    shutil.copytree(run, tmp_path / "2")
    (tmp_path / "2" / "log").write_bytes(b"step:1 - a:1\n")
    (tmp_path / "2" / "metrics.jsonl").unlink()
    assert read_evidence([tmp_path / "2"], states).metrics == {1: {"a": 1}}
