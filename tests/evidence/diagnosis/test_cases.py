"""Logs with what diagnose is to say about them, as folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.runs.judging.diagnosed import diagnose_log
from tests.conftest import CASES

FOLDERS = sorted((CASES / "diagnosis").iterdir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
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
    } == json.loads((folder / "expected.json").read_text())
    lines = (folder / "log").read_bytes().split(b"\n")
    assert cause is None or cause.text.strip()[-60:].encode() in lines[cause.line - 1]
