"""The rows hold what they promise; all of them against all logs is `benchmarks/signatures.py`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from rlx.evidence.diagnosis import Signature, needle_pattern, signatures
from rlx.evidence.diagnosis.excerpt import clean
from rlx.findings import finding_row
from tests.conftest import REPOSITORY

ROWS = pytest.mark.parametrize("row", signatures(), ids=lambda row: row.id)


def test_ids_are_unique_and_in_their_range() -> None:
    counted = Counter(row.id for row in signatures())
    assert counted.most_common(1)[0][1] == 1
    numbers = {int(id.removeprefix("RLX")) for id in counted}
    assert numbers <= {*range(590, 593), *range(804, 888), 899, *range(950, 980)}


def test_every_failure_that_was_collected_has_its_row() -> None:
    """failures.md, F01 to F47, in its order."""
    assert {f"RLX{number}" for number in range(804, 851)} <= {row.id for row in signatures()}


@ROWS
def test_a_row_is_complete(row: Signature) -> None:
    known = finding_row(row.id)
    assert known.source and row.samples and row.others and row.needles
    assert not any(text.endswith(".") for text in (known.en.title, known.en.reason, known.en.fix))


@ROWS
def test_the_search_finds_what_the_row_knows(row: Signature) -> None:
    """The needles are what travels: a sample without one would never be seen."""
    for sample in row.samples:
        line = sample.strip().splitlines()[-1]
        searched = subprocess.run(["grep", "-E", "-e", needle_pattern()], input=line.encode(), check=False)
        assert searched.returncode == 0 and row.knows(clean(line)[1])


@pytest.mark.long
def test_all_signatures_against_all_logs() -> None:
    """No miss, no false alarm, no wrong cause; and the page says so, in both languages."""
    command = [sys.executable, "-m", "benchmarks.signatures", "--check"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
