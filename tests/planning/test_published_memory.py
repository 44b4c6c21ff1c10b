"""The memory of public runs on NPUs, as measured, against the estimate: docs/dev/memory-model.md has the same table."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rlx.planning.memory import MemoryEstimate, device_of, estimate, job_of
from rlx.planning.models.architecture_config import architecture_from_text
from rlx.planning.rules.facts import facts_of
from rlx.recipe import load_recipe
from tests.conftest import CASES

FOLDER = CASES / "memory"
ROWS = list(csv.DictReader((FOLDER / "figures.csv").read_text(encoding="utf-8").splitlines()))
PAGE = Path(__file__).parents[2] / "docs/dev/memory-model.md"


def estimated(case: str) -> MemoryEstimate:
    """Of the recipe in that folder, with the model's config.json where rlx's table lacks it."""
    file = load_recipe(FOLDER / case / "recipe.yaml")
    facts, config = facts_of(file.resolve(file.arms[0])), FOLDER / case / "config.json"
    shape = (
        architecture_from_text(config.read_text(encoding="utf-8"), str(config))
        if config.exists()
        else facts.architecture
    )
    device = device_of(facts.recipe)
    assert shape is not None and device is not None
    return estimate(job_of(facts.recipe, facts.settings, shape, device))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_what_was_measured_is_in_the_range(row: dict[str, str]) -> None:
    result, measured = estimated(row["case"]), float(row["allocated_gib"])
    lower, upper = result.allocated.typical, result.allocated.longest
    assert states_of(result) <= lower <= measured <= upper <= 1.6 * lower
    assert not result.cannot_fit, "it ran"
    shown = f"| {measured:.1f} | {states_of(result):.1f} | {lower:.1f}–{upper:.1f} | {row['fitted'] or 'held out'} |"
    assert f"`{row['case']}` {shown}" in PAGE.read_text(encoding="utf-8")


def states_of(result: MemoryEstimate) -> float:
    """GiB that torch holds in any case."""
    exact = [phase for phase in result.phases if phase.name != "rollout"]
    return max(phase.states for phase in exact)


def test_most_rows_are_held_out_and_every_case_is_a_row() -> None:
    assert sum(not row["fitted"] for row in ROWS) >= 6
    assert {row["case"] for row in ROWS} == {path.parent.name for path in FOLDER.glob("*/recipe.yaml")}
