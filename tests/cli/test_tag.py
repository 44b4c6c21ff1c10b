"""Tags and notes: kept on this machine, shown beside the runs, and never a part of what is believed of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.runs import RunRef
from tests.cli.support import rlx
from tests.cli.terminal import on_terminal
from tests.conftest import CASES
from tests.runs.toys import ended, start, toy_plan
from tests.wording import settled

LOG = str(CASES / "logs/tiny-aqn/log")


def two_arms() -> tuple[RunRef, ...]:
    runs = start(toy_plan("echo 1", arm="baseline"), toy_plan("echo 2", arm="aqn"))
    for ref in runs:
        ended(ref)
    return runs


def status(*arguments: str) -> list[dict[str, Any]]:
    return list(json.loads(rlx("status", *arguments, "--json").stdout)["runs"])


def test_tags_and_a_note_are_shown_and_found() -> None:
    baseline, aqn = two_arms()
    assert rlx("tag", "aqn", "paper", "keep").stdout == f"{aqn.run_id}  keep, paper\n"
    note = "lr was wrong"
    assert rlx("tag", "baseline,aqn", "batch-1", "--note", "lr  was\nwrong").stdout == (
        f"{baseline.run_id}  batch-1 · {note}\n{aqn.run_id}  batch-1, keep, paper · {note}\n"
    )
    assert [(row["tags"], row["note"]) for row in status()] == [
        (["batch-1"], note),
        (["batch-1", "keep", "paper"], note),
    ]
    assert [row["run_id"] for row in status("--where", "tag=keep,tag=paper")] == [aqn.run_id]
    assert len(status("--where", "tag=batch-1")) == 2
    assert status("--where", "tag=kee") == []
    assert f"batch-1 · {note}" in rlx("status", "-v").stdout
    assert json.loads(rlx("tag", "aqn", "--json").stdout)["runs"] == [
        {"run_id": aqn.run_id, "tags": ["batch-1", "keep", "paper"], "note": note}
    ]


def test_tags_and_notes_go_again(wording: SnapshotAssertion) -> None:
    (run, _) = two_arms()
    rlx("tag", "baseline", "keep", "paper", "--note", "good")
    assert rlx("tag", "baseline", "keep", "other", "--remove").stdout == f"{run.run_id}  paper · good\n"
    assert settled(rlx("tag", "baseline", "paper", "--remove", "--note", "").stdout, {run.run_id: "run"}) == wording
    assert (status("baseline")[0]["tags"], status("baseline")[0]["note"]) == ([], None)
    assert rlx("tag", "baseline", "--remove", code=2).stderr == wording


def test_a_column_only_where_a_run_has_a_tag_and_there_is_room() -> None:
    two_arms()
    assert "TAGS" not in on_terminal("status", columns=160).text
    rlx("tag", "aqn", "keep")
    rows = [
        line.split() for line in on_terminal("status", columns=160).lines if line.startswith(("ARM", "base", "aqn"))
    ]
    assert [row[-1] == "keep" for row in rows] == [False, False, True]
    assert rows[0][-1] == "TAGS"
    assert "TAGS" not in on_terminal("status", columns=60).text


def test_nothing_is_concluded_from_them() -> None:
    (run, _) = two_arms()
    before, files = status("baseline"), sorted(run.run_dir.rglob("*"))
    rlx("tag", "baseline", "valid", "--note", "valid")
    (after,) = status("baseline")
    assert {**after, "tags": [], "note": None} == before[0]
    assert sorted(run.run_dir.rglob("*")) == files


def test_an_imported_run_has_tags() -> None:
    imported = json.loads(rlx("import", LOG, "--name", "old", "--json").stdout)
    rlx("tag", "old", "keep")
    assert [row["name"] for row in status("--where", "tag=keep")] == ["old"], imported


@pytest.mark.parametrize(
    "arguments",
    [
        ("two words",),
        ("a" * 41,),
        ("-x",),
        ("a,b",),
        ("a=b",),
        ("",),
        ("\x1b[31m",),
        tuple(f"tag{number}" for number in range(21)),
        ("--note", "x" * 501),
        ("--note", os.fsdecode(b"\xff")),
    ],
    ids=ascii,
)
def test_what_is_no_tag_is_refused_and_nothing_is_kept(arguments: tuple[str, ...]) -> None:
    two_arms()
    rlx("tag", "aqn", "first")
    rlx("tag", "aqn", "second", *arguments, code=2)
    assert status("aqn")[0]["tags"] == ["first"]
    assert status("aqn")[0]["note"] is None


def test_a_note_moves_no_terminal() -> None:
    two_arms()
    assert "\x1b" not in rlx("tag", "aqn", "--note", "\x1b[31mred\x1b]0;title\x07").stdout
    assert "\x1b" not in rlx("status", "-v").stdout


def test_they_outlive_the_index() -> None:
    two_arms()
    rlx("tag", "aqn", "keep")
    Path(os.environ["RLX_HOME"], "index.db").write_text("no database", encoding="utf-8")
    rlx("hosts", "reindex")
    assert status("aqn")[0]["tags"] == ["keep"]


def test_a_damaged_file_is_named_and_left_alone() -> None:
    two_arms()
    file = Path(os.environ["RLX_HOME"], "labels.db")
    damaged = "no database, but a text that is long enough to be taken for one " * 20
    file.write_text(damaged, encoding="utf-8")
    told = rlx("tag", "aqn", "keep", code=1).stderr
    assert str(file) in told and "  fix: " in told
    seen = rlx("status", "-v").stdout
    assert "finished" in seen and str(file) in seen.replace("\n", "")
    assert file.read_text(encoding="utf-8") == damaged
