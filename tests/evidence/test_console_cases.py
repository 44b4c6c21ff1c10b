"""Consoles of many versions: a folder each, with where it is from, the log and what rlx must read in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.evidence import Progress, read_log
from tests.conftest import CASES
from tests.evidence.test_console import parse

PUBLIC = sorted(path.parent for path in (CASES / "console").glob("*/expected.json"))


@pytest.mark.parametrize("case", PUBLIC, ids=lambda case: case.name)
def test_consoles_of_many_versions(case: Path) -> None:
    evidence = read_log(case / "log")
    metrics = {step: dict(values) for step, values in evidence.metrics.items()}
    wanted = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    assert repr(metrics) == repr(
        {int(step): {key: float(value) for key, value in values.items()} for step, values in wanted["metrics"].items()}
    )
    assert evidence.progress == (Progress(*wanted["progress"]) if wanted["progress"] else None)
    assert bool(evidence.unproven) == wanted["unproven"]


def test_a_public_log_of_another_verl_version() -> None:
    """verl >= 0.5 on one GPU, from a public tutorial: wrapped validation dumps and answers that span lines."""
    log = (CASES / "logs" / "verl-0.5-smollm" / "log").read_bytes()
    found = parse(log)
    assert sorted(found.timeline.steps) == [0, 1]
    assert found.timeline.steps[0]["val-core/char_count/reward/mean@3"] == 0.0
    assert found.timeline.steps[1]["actor/lr"] == 1e-6
    assert found.progress == Progress(1, 140)
