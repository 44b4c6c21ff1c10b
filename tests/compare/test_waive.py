"""`rlx waive`: a judgement on a finished run is accepted with a reason and a name, and every output shows it."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.api.runs import open_index
from rlx.evidence.verdict import Waiver, contradiction, incomplete, invalid, remark, unverified, waivable, with_waivers
from rlx.model import Severity
from rlx.model.verdict_rules import RULES
from rlx.runs.index.kept_waivers import waivers_file
from tests.cli.support import rlx
from tests.compare.run_dirs import CONTROL, SILENT, TREATMENT
from tests.compare.test_compare_seeds import RunsOf

RUN = "gsm8k-fast-s1"
ROWS = "RLX705"
BECAUSE = "the filter drops three rows"
# The plan says 97 rows and the log 100: a judgement, which leaves the run unverified.
DOUBTED = replace(TREATMENT, planned_rows=97)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def doubted(runs_of: RunsOf) -> None:
    runs_of(replace(CONTROL, rows=100), replace(DOUBTED, rows=100))


def verdict(run: str = RUN) -> dict[str, Any]:
    (row,) = json.loads(rlx("status", run, "--json").stdout)["runs"]
    found: dict[str, Any] = row["verdict"]
    return found


def test_a_waived_finding_no_longer_makes_a_run_unverified(doubted: None) -> None:
    assert (verdict()["status"], rlx("compare", "baseline", "fast", code=14).returncode) == ("unverified", 14)
    said = rlx("waive", RUN, ROWS, "--because", BECAUSE, "--by", "Ada").stdout
    assert f"valid, with 1 finding waived ({ROWS})" in said
    found = verdict()
    (finding,) = [each for each in found["findings"] if each["id"] == ROWS]
    assert (found["status"], found["waived"], finding["waived"]) == ("valid", [ROWS], BECAUSE)
    assert finding["severity"] == "note" and "waived by Ada on 20" in finding["message"]
    assert f"rules {RULES}" in finding["message"]
    rlx("compare", "baseline", "fast")


@pytest.mark.long
def test_every_output_shows_it(doubted: None) -> None:
    rlx("waive", "fast", ROWS, "--because", BECAUSE, "--by", "Ada")
    for command in (
        ["status", "-v", RUN],
        ["compare", "baseline", "fast"],
        ["compare", "baseline", "fast", "--md"],
        ["compare", "baseline", "fast", "--json"],
    ):
        assert ROWS in (said := rlx(*command).stdout) and BECAUSE in said.replace("\n", " "), command
    table = rlx("compare", "baseline", "fast", "--csv")
    assert f"findings waived: {ROWS} (fast)" in table.stderr
    assert next(csv.DictReader(io.StringIO(table.stdout)))
    claim = json.loads(rlx("compare", "baseline", "fast", "--json").stdout)["claim"]
    assert claim.endswith(f"; findings waived: {ROWS} (fast)")
    rlx("report", "baseline", "fast", "-o", "page.html", "--bundle", "b.tar.gz")
    assert BECAUSE in Path("page.html").read_text(encoding="utf-8")


def test_a_bundle_carries_it(doubted: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rlx("waive", "fast", ROWS, "--because", BECAUSE, "--by", "Ada")
    rlx("report", "baseline", "fast", "--bundle", "b.tar.gz")
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "another home"))
    judged = json.loads(rlx("judge", "b.tar.gz", "--json").stdout)
    assert judged["agrees"]
    (run,) = [each for each in judged["computed"]["runs"] if each["verdict"]["waived"]]
    assert (run["verdict"]["status"], run["verdict"]["waived"]) == ("valid", [ROWS])
    assert any("waived" in each for each in judged["on_trust"])
    assert BECAUSE in rlx("judge", "b.tar.gz").stdout.replace("\n", " ")


def test_pull_puts_it_beside_the_files_of_the_run(doubted: None) -> None:
    rlx("waive", "fast", ROWS, "--because", BECAUSE)
    rlx("pull", "fast", "--to", "results")
    (found,) = Path("results").glob("*/waivers.json")
    assert BECAUSE in found.read_text(encoding="utf-8")


def test_it_can_be_taken_back(doubted: None) -> None:
    rlx("waive", "fast", ROWS, "--because", BECAUSE)
    assert "unverified" in rlx("waive", "fast", ROWS, "--undo").stdout
    assert (verdict()["status"], verdict()["waived"]) == ("unverified", [])
    assert not waivers_file(open_index().home, RUN).exists()
    again = rlx("waive", "fast", ROWS, "--undo", code=1).stderr
    assert f"{ROWS} is not waived" in again


def test_twice_keeps_the_last_reason(doubted: None) -> None:
    rlx("waive", "fast", ROWS, "--because", "first", "--by", "Ada")
    (run,) = json.loads(rlx("waive", "fast", ROWS, ROWS, "--because", "second", "--by", "Bo", "--json").stdout)["runs"]
    assert [(each["id"], each["reason"], each["by"]) for each in run["waivers"]] == [(ROWS, "second", "Bo")]


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("nobody", ROWS, "--because", "x"), 12, "nobody"),
        (("fast", "RLX999", "--because", "x"), 2, "RLX999 is no finding"),
        (("fast", "RLX706", "--because", "x"), 1, "has no finding RLX706"),
        (("fast", ROWS), 2, "needs a reason"),
        (("fast", ROWS, "--because", "  "), 2, "needs a reason"),
        (("fast", "--because", "x"), 2, "which finding"),
        ((ROWS, "--because", "x"), 2, "which run"),
        (("fast", ROWS, "--undo", "--because", "x"), 2, "no other option"),
        (("fast", ROWS, "--undo"), 1, "is not waived"),
    ],
)
def test_what_is_mistyped_is_said_and_nothing_is_written(
    doubted: None, words: tuple[str, ...], code: int, reason: str
) -> None:
    assert reason in rlx("waive", *words, code=code).stderr
    assert verdict()["status"] == "unverified"


def test_a_contradiction_cannot_be_waived(runs_of: RunsOf) -> None:
    runs_of(CONTROL, SILENT)
    (finding, *_) = verdict("gsm8k-aqn-s1")["findings"]
    refused = rlx("waive", "aqn", finding["id"], "--because", "it is fine", code=1).stderr
    assert "cannot be waived" in refused and "contradiction" in refused
    assert verdict("gsm8k-aqn-s1")["status"] == "invalid"


def test_a_run_that_goes_on_has_nothing_to_waive(runs_of: RunsOf) -> None:
    runs_of(CONTROL, DOUBTED, finished=False)
    assert "that has ended" in rlx("waive", "fast", ROWS, "--because", "x", code=2).stderr


def test_a_damaged_file_waives_nothing(doubted: None) -> None:
    rlx("waive", "fast", ROWS, "--because", BECAUSE)
    (file,) = (open_index().home / "waivers").glob("*.json")
    file.write_text("{", encoding="utf-8")
    assert verdict()["status"] == "unverified"
    assert "no waivers can be read" in rlx("waive", "fast", ROWS, "--because", BECAUSE, code=1).stderr


def test_which_charges_may_be_waived_is_one_property_of_them() -> None:
    charges = [
        invalid("RLX646", "a"),
        incomplete("RLX701", "b"),
        contradiction("RLX713", "c"),
        unverified("RLX705", "d"),
        remark("RLX656", Severity.WARNING, "e"),
        remark("RLX711", Severity.NOTE, "f"),
        replace(unverified("RLX716", "g"), is_missing=True),
        unverified("RLX654", "h"),
        invalid("RLX654", "i"),
    ]
    assert waivable(charges) == ("RLX705", "RLX656")
    waivers = [Waiver(charge.finding.id, "why", "me", "2026-11-28T10:00:00Z", RULES, "1") for charge in charges]
    found, waived = with_waivers(charges, waivers)
    assert waived == ("RLX656", "RLX705")
    assert [each.status for each in found if each.finding.id in waived] == ["valid", "valid"]


def test_a_waiver_of_rules_that_changed_does_not_hold() -> None:
    broken = remark("RLX703", Severity.WARNING, "no value")
    older = Waiver("RLX703", "why", "me", "2026-11-28T10:00:00Z", 2, "1")
    assert with_waivers([broken], [older]) == ([broken], ())
    assert with_waivers([broken], [replace(older, rules=RULES)])[1] == ("RLX703",)
