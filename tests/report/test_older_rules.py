"""A bundle is judged by the rules that it names; what newer rules say of it stands beside that."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from rlx import __version__
from rlx.api.verifying import JudgedBundle
from rlx.findings import finding_ids, finding_row
from rlx.model import verdict_rules
from rlx.model.run_dir import COMPOSED_FILE
from rlx.model.verdict_rules import RULES
from rlx.renamed_keys import RenamedKey
from tests.cli.support import rlx
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs
from tests.report.bundles import apart, edit_json, sum_up, together
from tests.wording import settled

FIRST = {f"RLX{number}" for number in (CASES / "golden" / "rules-1.txt").read_text(encoding="utf-8").split()}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A recorded pair whose runs have composed configurations."""
    monkeypatch.chdir(tmp_path)
    return place_runs(CASES / "pairs" / "tiny-cpu")


@pytest.fixture
def bundle(runs: list[Path]) -> Path:
    return front_door.bundle("evidence.tar.gz", "baseline", "aqn")


@pytest.fixture
def older(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundle of an rlx with the first rules, of runs of which those of now say something more."""
    for run in runs:
        file = run / "attempts/1" / COMPOSED_FILE
        text = file.read_text(encoding="utf-8")
        assert "ppo_mini_batch_size: 20" in text
        file.write_text(text.replace("ppo_mini_batch_size: 20", "ppo_mini_batch_size: 10"), encoding="utf-8")
    with monkeypatch.context() as then:
        then.setattr("rlx.api.bundles.RULES", 1)
        return front_door.bundle("evidence.tar.gz", "baseline", "aqn")


def edited(bundle: Path, edit: Callable[[Path], None]) -> Path:
    """The bundle with other content, its digests written anew."""
    folder = apart(bundle, bundle.parent / "open")
    edit(folder)
    sum_up(folder)
    return together(folder, bundle)


def of_rules(rules: object) -> Callable[[Path], None]:
    """An edit: the bundle names other rules."""
    return lambda folder: edit_json(folder / "bundle.json", lambda document: document.update(rules=rules))


def without_rules(folder: Path) -> None:
    """An edit: the bundle is from before rules had a number."""

    def strip(value: Any) -> Any:
        if isinstance(value, list):
            return [strip(item) for item in value]
        return {key: strip(item) for key, item in value.items() if key != "rules"} if isinstance(value, dict) else value

    file = folder / "bundle.json"
    file.write_text(json.dumps(strip(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")


def test_a_bundle_and_its_verdicts_name_the_rules(bundle: Path) -> None:
    document = json.loads((apart(bundle, bundle.parent / "open") / "bundle.json").read_text(encoding="utf-8"))
    assert document["rules"] == RULES
    assert {run["verdict"]["rules"] for run in document["claims"]["runs"]} == {RULES}
    (run, _) = json.loads(rlx("status", "-a", "--json").stdout)["runs"]
    assert run["verdict"]["rules"] == RULES
    found = front_door.judge_bundle(bundle)
    assert found.agrees and not found.objections and found.rules == RULES


@pytest.mark.long
@pytest.mark.parametrize("has_number", [True, False])
def test_older_rules_judge_as_they_did(older: Path, has_number: bool, wording: SnapshotAssertion) -> None:
    """What it claims follows from the evidence by the rules of then; the newer check stands beside it."""
    found = front_door.judge_bundle(older if has_number else edited(older, without_rules))
    assert found.agrees, (found.differences, found.worded_otherwise)
    objections = [(each.id, each.verdict) for each in found.objections if each.run_id]
    assert objections == [("RLX644", "invalid")] * 2
    said = rlx("judge", str(older)).stdout
    assert re.search(rf"^rules {RULES} .*: RLX644 tiny-cpu-\S+ \(invalid\): ", said, re.M), said
    # A bundle whose number was taken out has other digests.
    assert settled(said, {found.sha256: "sha256", f"rlx {__version__}": "rlx"}) == wording


def test_the_same_runs_by_the_rules_of_now(older: Path) -> None:
    """Whoever writes another number is found out by the newer check."""
    found = front_door.judge_bundle(edited(older, of_rules(RULES)))
    assert not found.agrees and not found.objections
    assert "verdict.status" in {each.field for each in found.differences}


def test_older_rules_excuse_no_other_number(older: Path) -> None:
    def edit(folder: Path) -> None:
        def claim(document: Any) -> None:
            document["claims"]["comparison"]["contrasts"][0]["treatment_value"] = 0.99

        edit_json(folder / "bundle.json", claim)

    (found,) = front_door.judge_bundle(edited(older, edit)).differences
    assert found.field == "comparison.contrasts[0].treatment_value"


@pytest.mark.parametrize("rules", [RULES + 1, 0, "2", True, [1]], ids=["newer", "none", "text", "truth", "list"])
def test_rules_that_this_rlx_does_not_know_are_refused(bundle: Path, rules: object, wording: SnapshotAssertion) -> None:
    said = rlx("judge", str(edited(bundle, of_rules(rules))), code=1).stderr
    assert f"rules {rules}" in said and f"rules {RULES}" in said
    assert settled(said, {__version__: "version"}) == wording


def test_a_check_that_changed_since_is_no_disagreement(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its older answer cannot be computed any more: what follows from it stands apart."""
    monkeypatch.setattr(
        verdict_rules, "finding_row", lambda id: replace(finding_row(id), since=1, changed=2 if id == "RLX644" else 1)
    )
    found = front_door.judge_bundle(older)
    assert not found.agrees and not found.differences
    assert "verdict.status" in {each.field for each in found.ruled_otherwise}
    assert {each.id for each in found.objections if each.run_id} == {"RLX644"}
    said = rlx_judge_text(found)
    assert all(each.field in said for each in found.ruled_otherwise)


def rlx_judge_text(found: JudgedBundle) -> str:
    from rlx.cli.verify import judged_lines

    return "\n".join(judged_lines(found))


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "row"),
    [
        (REPOSITORY / "docs/example-ab/difference.tar.gz", RenamedKey("aqn.min_trained_share", "aqn.least", "0.4.0")),
        (CASES / "golden/0.2.0-cf603b12/bundle.tar.gz", RenamedKey("train.lr", "train.rate", "0.4.0")),
    ],
    ids=["a key of a section", "a key"],
)
def test_what_differed_by_an_old_name_differs_by_the_new_one(
    path: Path, row: RenamedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlx.renamed_keys.RENAMED", (row,))
    found = front_door.judge_bundle(path)
    assert (found.differences, found.ruled_otherwise) == ((), ())
    # Its sentences may have other words since it was written, but the same keys.
    assert [each for each in found.worded_otherwise if row.new in str(each)] == []


def test_every_finding_that_came_later_is_in_the_table() -> None:
    """The row of a check that is added has a number: see rlx/model/verdict_rules.py."""
    of_now = set()
    for folder in ("evidence", "compare", "runs/judging", "api/experiments.py"):
        place = REPOSITORY / "rlx" / folder
        for path in [place] if place.is_file() else place.rglob("*.py"):
            of_now |= set(re.findall(r'"(RLX\d{3})"', path.read_text(encoding="utf-8")))
    of_now.remove("RLX024")  # looked up among what the recipe waives
    rows = [finding_row(id) for id in finding_ids()]
    assert of_now - FIRST == {row.id for row in rows if row.since > 1}
    assert max(max(row.since, row.changed) for row in rows) == RULES


@pytest.mark.parametrize("folder", ["0.2.0-676c760a", "0.2.0-cf603b12"])
def test_bundles_of_earlier_versions(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = front_door.judge_bundle(CASES / "golden" / folder / "bundle.tar.gz")
    assert (found.rules, len(found.runs), found.differences, found.ruled_otherwise) == (1, 4, (), ())
    assert not found.objections
    # Power and numbers of seeds have other words since then.
    expected = [
        f"comparison.contrasts[0].{each}" for each in ("findings[0].message", "findings[0].fix", "sentences[1]")
    ]
    # The first that wrote bundles did not answer registered questions, and said so in the claim.
    expected += [] if folder.endswith("cf603b12") else ["comparison.claim", "problem"]
    assert [each.field for each in found.worded_otherwise] == expected
    rlx("judge", str(found.path), code=0 if found.agrees else 14)
    assert not Path(os.environ["RLX_HOME"]).exists()
