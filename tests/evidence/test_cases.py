"""Folders of evidence and the verdict they must lead to.

`case.json`: arm, state, settings of the back-end, what is promised otherwise, and either a recorded run and maybe an
edit, or a recorded run as two attempts (`resumed`), or the log of another case (`log_of`) with patterns that are
replaced in it (`replace`). `plan`: the words that set keys, beside what the engine composed in `composed.yaml`.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.evidence import Evidence, Verdict, judge, read_evidence
from rlx.evidence.checks.recipe_settings import setting_mismatches
from rlx.model import RunState
from rlx.yaml_reader.hydra import read_hydra, read_words
from tests.conftest import CASES
from tests.evidence.adaptive_edits import EDITS as ADAPTIVE_EDITS
from tests.evidence.chain_edits import CHAIN_EDITS
from tests.evidence.edits import EDITS as BASIC_EDITS
from tests.evidence.edits import Recorded
from tests.evidence.perturbed_edits import EDITS as PERTURBED_EDITS
from tests.evidence.probed_edits import EDITS as PROBED_EDITS
from tests.evidence.resumed_runs import SEAM_EDITS, two_attempts
from tests.evidence.watched_edits import EDITS as WATCHED_EDITS
from tests.recorded import recorded_expectations

EDITS = ADAPTIVE_EDITS | BASIC_EDITS | CHAIN_EDITS | PERTURBED_EDITS | PROBED_EDITS | WATCHED_EDITS
FOLDERS = sorted(path.parent for path in (CASES / "evidence").glob("*/case.json"))


def attempts(folder: Path, case: dict[str, Any], tmp_path: Path) -> list[Path]:
    """The attempt directories of a case: an edited copy of a recorded one, its `attempts/`, or the folder itself."""
    if "resumed" in case:
        seam = case["resumed"]
        return two_attempts(case["arm"], seam["last"], seam["after"], seam.get("edit", ""), tmp_path)
    if "recorded" in case:
        recorded = CASES / "logs" / case["recorded"]
        return [edited(recorded, case["edit"], tmp_path / "attempt")] if "edit" in case else [recorded]
    if "log_of" in case:
        return [replaced(folder.parent / case["log_of"], case["replace"], tmp_path / "attempt")]
    return sorted((folder / "attempts").iterdir()) if (folder / "attempts").exists() else [folder]


def edited(recorded: Path, edit: str, copy: Path) -> Path:
    shutil.copytree(recorded, copy)
    run = Recorded(copy)
    EDITS[edit](run)
    run.write()
    return copy


def replaced(source: Path, patterns: list[tuple[str, str]], copy: Path) -> Path:
    """A copy of a case whose log has other lines. Each pattern must be found: one that is not tests nothing."""
    shutil.copytree(source, copy)
    text = (copy / "log").read_text(encoding="utf-8")
    for pattern, replacement in patterns:
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert count, pattern
    (copy / "log").write_text(text, encoding="utf-8")
    return copy


def verdict_of(folder: Path, tmp_path: Path) -> tuple[Verdict, Evidence]:
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    dirs = attempts(folder, case, tmp_path)
    where = folder if (folder / "expectations.json").exists() else dirs[0]
    promised = json.loads((where / "expectations.json").read_text(encoding="utf-8")) | case.get("promised", {})
    expectations = recorded_expectations(promised)
    evidence = replace(read_evidence(dirs), settings=case.get("settings", {}))
    if "plan" in case:
        composed = read_hydra((folder / "composed.yaml").read_text(encoding="utf-8"))
        found = setting_mismatches(read_words(case["plan"]), composed)
        evidence = replace(evidence, setting_mismatches=tuple(found))
    return judge(evidence, expectations, RunState(case["state"]), arm=case["arm"]), evidence


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_verdict(folder: Path, tmp_path: Path, wording: SnapshotAssertion) -> None:
    verdict, _ = verdict_of(folder, tmp_path)
    seen: dict[str, Any] = {
        "status": verdict.status,
        "ids": [finding.id for finding in verdict.findings],
        "noise": verdict.noise,
    }
    if verdict.dissent:
        seen["dissent"] = True
    assert seen == json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    assert verdict.sentence == wording


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_finding_can_be_read(folder: Path, tmp_path: Path) -> None:
    verdict, _ = verdict_of(folder, tmp_path)
    assert "\n" not in verdict.sentence
    assert all(finding.message and "\n" not in finding.message for finding in verdict.findings)


def test_every_edit_is_used() -> None:
    used = {json.loads((folder / "case.json").read_text(encoding="utf-8")).get("edit") for folder in FOLDERS} - {None}
    assert used == EDITS.keys()


def test_every_edit_of_a_seam_is_used() -> None:
    cases = [json.loads((folder / "case.json").read_text(encoding="utf-8")) for folder in FOLDERS]
    assert {case["resumed"].get("edit") for case in cases if "resumed" in case} - {None} == SEAM_EDITS.keys()
