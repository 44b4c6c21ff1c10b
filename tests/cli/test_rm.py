"""`rlx rm`: a mistaken launch no longer takes over the names, and counts as existing all the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from rlx.api.completing import run_names
from rlx.compare.excluded_runs import ExcludedBy
from rlx.errors import NoSuchRun, RlxError, UsageError
from rlx.runs import Index, RunRef
from rlx.runs.run import utc_text
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs
from tests.runs.toys import FOREVER, ended, home, start, start_one, toy_plan
from tests.wording import settled

LOG = str(CASES / "logs/tiny-aqn/log")


def launched(*words: str) -> tuple[RunRef, ...]:
    runs = start(*(toy_plan(f"echo {word}", arm=word) for word in words))
    for ref in runs:
        ended(ref)
    return runs


def answer(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(rlx(*arguments, "--json").stdout))


def shown(*arguments: str) -> Sequence[str]:
    return [row["run_id"] for row in answer("status", *arguments)["runs"]]


def worded(text: str) -> str:
    """The text without what differs between removals: ids, times and who removed."""
    named = {ref.run_id: "run" for ref in Index(home()).runs()}
    for each in Index(home()).hidden_runs().values():
        named |= {each.run_id: "run", each.by: "person", utc_text(each.removed): "time"}
    return settled(text, named)


def test_a_mistaken_launch_gives_the_names_back(wording: SnapshotAssertion) -> None:
    (first,) = launched("aqn")
    (mistake,) = launched("aqn")
    assert shown("aqn") == [mistake.run_id]
    said = rlx("rm", "aqn", "--reason", "wrong\nrate").stdout
    assert "wrong rate\n" in said and worded(said) == wording
    assert shown("aqn") == shown() == [first.run_id]
    assert [ref.run_id for ref in front_door.find_runs("aqn")] == [first.run_id]
    assert rlx("logs", "aqn").stdout == rlx("logs", first.run_id).stdout
    assert mistake.run_id not in run_names("") and first.run_id in run_names("")


def test_the_id_still_finds_it_and_says_so(wording: SnapshotAssertion) -> None:
    _, (mistake,) = launched("aqn"), launched("aqn")
    rlx("rm", mistake.run_id)
    logs = rlx("logs", mistake.run_id)
    assert "aqn" in logs.stdout and mistake.run_id in logs.stderr and worded(logs.stderr) == wording
    assert worded(rlx("diagnose", mistake.run_id).stdout) == wording
    (row,) = answer("status", mistake.run_id)["runs"]
    assert (row["state"], row["removed"]["deleted"], row["removed"]["reason"]) == ("finished", False, "")
    assert shown("-a")[0] == mistake.run_id
    table = rlx("status", "-a").stdout
    assert " removed " in table
    (line,) = (line for line in table.splitlines() if mistake.run_id in line)
    assert worded(line) == wording


def test_where_all_are_removed_the_id_still_finds_one(wording: SnapshotAssertion) -> None:
    (only,) = launched("aqn")
    assert [each.ref for each in front_door.remove("aqn")] == [only]
    with pytest.raises(NoSuchRun) as caught:
        front_door.find_runs()
    assert caught.value.message == wording
    assert front_door.find_runs(only.run_id) == (only,)
    assert shown() == [] and shown("-a") == [only.run_id]
    assert rlx("status").stderr == wording


def test_it_comes_back(wording: SnapshotAssertion) -> None:
    first, mistake = launched("aqn"), launched("aqn", "other")
    rlx("rm", mistake[0].launch_id)
    assert shown() == [first[0].run_id]
    told = rlx("rm", "--undo", "aqn").stdout
    assert mistake[0].run_id in told and worded(told) == wording
    assert shown("aqn") == [mistake[0].run_id]
    assert answer("rm", "--undo", mistake[1].run_id)["restored"] == [mistake[1].run_id]
    assert list((mistake[0].run_dir.parent / ".removed").iterdir()) == []
    assert rlx("rm", "--undo", "aqn", code=12).stderr == wording


def test_what_has_not_ended_is_refused() -> None:
    (over,) = launched("aqn")
    going = start_one(FOREVER)
    told = rlx("rm", "aqn", going.run_id, code=2).stderr
    assert f"rlx stop {going.run_id}" in told
    assert shown("aqn") == [over.run_id], "nothing is removed where one cannot be"
    front_door.stop(going, grace_s=0)
    rlx("rm", going.run_id)


def test_it_outlives_the_index() -> None:
    (_, mistake), imported = (launched("aqn"), launched("aqn")[0]), answer("import", LOG, "--name", "old")
    rlx("rm", mistake.run_id, "old")
    Path(home(), "index.db").write_text("no database", encoding="utf-8")
    rlx("hosts", "reindex")
    hidden_runs = Index(home()).hidden_runs()
    assert {mistake.run_id, imported["run_id"]} == set(hidden_runs)


def test_nothing_is_hidden_by_what_is_no_tombstone() -> None:
    (run,) = launched("aqn")
    folder = run.run_dir.parent / ".removed"
    folder.mkdir()
    (folder / f"{run.run_id}.json").write_text('{"run_id": "' + run.run_id + '", "seed": "one"}', encoding="utf-8")
    (folder / "other.json").write_text("\x00\x00[" * 1000, encoding="utf-8")
    (home() / "index.db").unlink()
    assert shown("aqn") == [run.run_id]


def test_a_folder_that_cannot_be_written_hides_it_here_only(wording: SnapshotAssertion) -> None:
    (run,) = launched("aqn")
    (run.run_dir.parent / ".removed").write_text("a file of somebody", encoding="utf-8")
    (removed,) = answer("rm", "aqn")["removed"]
    assert ".removed" in removed["here_only"] and removed["here_only"] == wording
    assert shown() == []
    assert front_door.restore("aqn")[0].run_id == run.run_id and shown() == [run.run_id]


def test_removing_a_bad_run_does_not_flatter_a_comparison(wording: SnapshotAssertion) -> None:
    runs = place_runs(CASES / "six-runs")
    bad = next(run.name for run in runs if "-aqn-" in run.name and "s3" in run.name)
    front_door.remove(bad, reason="looked bad")
    compared = front_door.compare("baseline", "aqn")
    (left,) = [run for run in compared.left_out if run.run_id == bad]
    assert left.by is ExcludedBy.REMOVAL and f"{bad} (valid)" in left.why and "looked bad" in left.why
    assert worded(left.why) == wording
    for form in ((), ("--md",)):
        text = rlx("compare", "baseline", "aqn", *form, code=None).stdout.replace("\\", "")
        assert ExcludedBy.REMOVAL in text and left.why in text, text
    named = rlx("compare", "baseline", f"aqn-s1,aqn-s2,{bad}", code=None)
    assert bad in named.stderr and ExcludedBy.REMOVAL not in named.stdout
    front_door.prune(bad, what=["runs"])
    (pruned,) = [run for run in front_door.compare("baseline", "aqn").left_out if run.run_id == bad]
    assert pruned.state == "finished" and "looked bad" in pruned.why
    assert worded(pruned.why) == wording


def test_a_bundle_says_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    runs = place_runs(CASES / "six-runs")
    bad = next(run.name for run in runs if "-aqn-" in run.name and "s3" in run.name)
    front_door.remove(bad)
    bundle = front_door.bundle(tmp_path / "evidence.tar.gz", "baseline", "aqn")
    for name in ("RLX_HOME", "RLX_ROOT"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere" / name))
    judged = front_door.judge_bundle(bundle)
    assert judged.agrees, judged.differences
    assert judged.computed is not None
    assert [run["by"] for run in judged.computed["left_out"]] == [ExcludedBy.REMOVAL]
    assert [each for each in judged.on_trust if bad in each] == wording


def test_words_that_mean_nothing_change_nothing() -> None:
    (run,) = launched("aqn")
    with pytest.raises(NoSuchRun):
        front_door.remove(["aqn", "nobody"])
    with pytest.raises(UsageError):
        front_door.remove("aqn", reason="x" * 501)
    with pytest.raises(RlxError):
        front_door.restore(run)
    assert shown() == [run.run_id] and not (run.run_dir.parent / ".removed").exists()
