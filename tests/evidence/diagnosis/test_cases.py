"""Logs with what diagnose is to say about them, as folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from rlx.runs.judging.diagnose_runs import diagnose_log
from tests.conftest import CASES

NOT_YET = (CASES / "diagnosis" / "not-yet.txt").read_text(encoding="utf-8").split()
FOLDERS = sorted(folder for folder in (CASES / "diagnosis").iterdir() if folder.is_dir())


def marked(folder: Path) -> ParameterSet:
    """Expect a log to fail that was collected before its row, and to be struck off the list once it does not."""
    marks = [pytest.mark.xfail(strict=True, reason="no row knows it yet")] if folder.name in NOT_YET else []
    return pytest.param(folder, id=folder.name, marks=marks)


@pytest.mark.parametrize("folder", [marked(folder) for folder in FOLDERS])
def test_a_log_is_explained_as_its_case_says(folder: Path) -> None:
    found = diagnose_log(folder / "log").diagnosis
    cause = found.cause
    assert {
        "cause": cause.id if cause else None,
        "line": cause.line if cause else None,
        "raised": cause.exception if cause else "",
        "at": cause.at if cause else "",
        "symptoms": [hit.id for hit in found.symptoms],
        "warnings": [hit.id for hit in found.warnings],
        "findings": [finding.id for finding in found.findings],
    } == json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    lines = (folder / "log").read_bytes().split(b"\n")
    assert cause is None or cause.text.strip()[-60:].encode() in lines[cause.line - 1]
