"""Real trainings that went as planned, kept as bundles, and what today's rules say of each.

`python -m benchmarks.honest_trainings NAME --keep` trains and keeps one.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from pathlib import Path

import pytest

import rlx
from benchmarks.honest_trainings import FOLDER, MOST_WARNED, read_grid
from rlx.evidence import Verdict
from rlx.model import Severity
from tests.cli.support import rlx_here
from tests.recorded import place_bundle

BUNDLES = sorted(FOLDER.glob("*.tar.gz"))
# A resumed run of verl has two logs with its whole configuration.
MOST_BYTES = 80_000


def name_of(bundle: Path) -> str:
    return bundle.name.removesuffix(".tar.gz")


@functools.cache
def judged() -> dict[str, tuple[Verdict, int]]:
    """Place the runs as their hosts left them; the verdict of each by the rules of now, and the code of `rlx wait`."""
    placed = {name_of(bundle): place_bundle(bundle) for bundle in BUNDLES}
    return {
        name: (rlx.judge(run.name).verdict, rlx_here(["wait", run.name]).exit_code) for name, (run,) in placed.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("bundle", BUNDLES, ids=name_of)
def test_the_verdict_is_the_expected_one(bundle: Path) -> None:
    expected = json.loads(bundle.with_name(f"{name_of(bundle)}.json").read_text(encoding="utf-8"))
    verdict, code = judged()[name_of(bundle)]
    assert (verdict.status, [finding.id for finding in verdict.findings]) == (expected["verdict"], expected["ids"])
    assert code == 0


def test_no_error_and_hardly_a_warning_in_all_of_them() -> None:
    verdicts = {name: verdict for name, (verdict, _) in judged().items()}
    severities = {name: {finding.severity for finding in verdict.findings} for name, verdict in verdicts.items()}
    assert [name for name, verdict in verdicts.items() if verdict.status != "valid" or verdict.dissent] == []
    assert [name for name, found in severities.items() if Severity.ERROR in found] == []
    warned = [name for name, found in severities.items() if Severity.WARNING in found]
    assert len(warned) <= MOST_WARNED * len(BUNDLES), warned


def test_the_fixtures_are_different_cells_of_the_grid() -> None:
    grid = read_grid()
    assert {name_of(bundle) for bundle in BUNDLES} <= grid.keys()
    settings = {
        name: (cell.recipe, cell.engine, cell.arm, cell.resume_after, str(cell.set)) for name, cell in grid.items()
    }
    assert len(set(settings.values())) == len(grid)


@pytest.mark.parametrize("bundle", BUNDLES, ids=name_of)
def test_a_fixture_is_small_and_names_no_machine(bundle: Path) -> None:
    assert bundle.stat().st_size <= MOST_BYTES
    text = gzip.decompress(bundle.read_bytes()).decode()
    assert set(re.findall(r"(?<!\w)/(?:root|tmp/h|work|Users|home/(?!me\b)\w+)\b", text)) == set()
