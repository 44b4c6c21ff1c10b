"""What is kept of a run costs nothing to use and is never believed beyond the files it was made from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlx
from rlx.evidence import Evidence, read_evidence
from rlx.evidence.cache import file_digest as digest
from rlx.runs.judging.parser_cache import ParsedFiles
from tests.runs.test_parsed import CHANGES, attempt, change, told

_TICKS = count(1)


@pytest.fixture(scope="module", autouse=True)
def _files_are_settled_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "SETTLED_S", -3600.0)
        yield


def looked(run: Path, home: Path) -> Evidence:
    return read_evidence([run], ParsedFiles(home))


def shelf(home: Path) -> Path:
    """The one file with evidence: no log of these tests is long enough for a parser to be kept."""
    (kept,) = (home / "parsed").iterdir()
    return kept


def at_another_time(path: Path) -> None:
    """Tests write faster than the clock of a disk ticks."""
    os.utime(path, ns=((tick := next(_TICKS)), tick))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return attempt(tmp_path / "1")


def test_what_did_not_change_is_not_read_again(run: Path, tmp_path: Path) -> None:
    whole, first = told(looked(run, tmp_path)), shelf(tmp_path).stat().st_ino
    assert told(looked(run, tmp_path)) == whole
    assert shelf(tmp_path).stat().st_ino == first
    assert looked(run, tmp_path).digest


@settings(deadline=None, max_examples=60)
@given(CHANGES)
def test_evidence_says_the_same_with_and_without_what_is_kept_of_it(changes: list[tuple[str, bytes]]) -> None:
    with TemporaryDirectory() as folder:
        run = attempt(Path(folder) / "1")
        for how, text in changes:
            change(run / "log", how, text)
            at_another_time(run / "log")
            assert told(looked(run, Path(folder))) == told(read_evidence([run]))
            assert told(looked(run, Path(folder))) == told(read_evidence([run]))


@pytest.mark.parametrize("how", ["replaced", "rewritten", "truncated", "grown", "removed"])
@pytest.mark.parametrize("name", ["log", "metrics.jsonl", "events/a.jsonl", "validation/3.jsonl"])
def test_a_file_that_changed_is_read_again(run: Path, tmp_path: Path, name: str, how: str) -> None:
    for folder, line in (
        ("events", '{"kind": "noise", "phase": "rollout", "step": 1, "layers": 2, "sigma": 0.5}'),
        ("validation", "{}"),
    ):
        (run / folder).mkdir()
        (run / folder / ("a.jsonl" if folder == "events" else "3.jsonl")).write_text(
            f"{line}\n{line}\n", encoding="utf-8"
        )
    before, path = looked(run, tmp_path), run / name
    data = path.read_bytes()
    other = data.replace(b"5", b"7").replace(b"}\n{", b"} {")
    if how == "replaced":
        (aside := run / "aside").write_bytes(other)
        os.utime(aside, ns=(path.stat().st_mtime_ns,) * 2)
        aside.replace(path)
    elif how == "removed":
        path.unlink()
    else:
        path.write_bytes({"rewritten": other, "truncated": data[: len(data) // 2], "grown": data + data}[how])
        at_another_time(path)
    assert told(looked(run, tmp_path)) == told(read_evidence([run]))
    assert looked(run, tmp_path).digest != before.digest


def test_the_end_of_a_run_is_seen_where_only_its_last_line_waits(run: Path, tmp_path: Path) -> None:
    with (run / "log").open("ab") as log:
        log.write(b"step:99 - a:1")
    assert looked(run, tmp_path).last_step != 99
    (run / "state").mkdir()
    (run / "state" / "exit").touch()
    assert looked(run, tmp_path).last_step == 99


def test_another_rlx_reads_again(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = looked(run, tmp_path)
    first = shelf(tmp_path).stat().st_ino
    monkeypatch.setattr(rlx, "__version__", "99.0")
    after = looked(run, tmp_path)
    assert shelf(tmp_path).stat().st_ino != first
    assert told(after) == told(before)
    assert after.digest != before.digest


def test_a_file_just_written_may_be_written_again(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "SETTLED_S", 3600.0)
    assert not looked(run, tmp_path).digest
    assert not (tmp_path / "parsed").exists()


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_what_is_damaged_is_read_anew(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        run, home = attempt(Path(folder) / "1"), Path(folder)
        whole = told(looked(run, home))
        kept = shelf(home)
        content = bytearray(kept.read_bytes())
        for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
            content[place] ^= data.draw(st.integers(1, 255))
        kept.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
        assert told(looked(run, home)) == whole
        assert told(looked(run, home)) == whole


def test_damage_is_mended(run: Path, tmp_path: Path) -> None:
    whole, kept = told(looked(run, tmp_path)), shelf(tmp_path)
    sound = kept.read_bytes()
    kept.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert told(looked(run, tmp_path)) == whole
    assert kept.read_bytes() == sound


def test_a_shelf_that_cannot_be_written_costs_only_time(run: Path, tmp_path: Path) -> None:
    (tmp_path / "parsed").write_text("a file is in the way", encoding="utf-8")
    assert told(looked(run, tmp_path)) == told(read_evidence([run]))


def test_a_copied_run_has_its_own(run: Path, tmp_path: Path) -> None:
    looked(run, tmp_path)
    shutil.copytree(run, tmp_path / "2")
    (tmp_path / "2" / "log").write_bytes(b"step:1 - a:1\n")
    (tmp_path / "2" / "metrics.jsonl").unlink()
    assert looked(tmp_path / "2", tmp_path).metrics == {1: {"a": 1}}
