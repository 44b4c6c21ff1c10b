"""The grid of edited runs: every fault is seen through, no honest run is accused, and no cell is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.model import Link
from tests.evidence.grid.cases import Direction, Source
from tests.evidence.grid.judged import outcome_of
from tests.evidence.grid.table import EMPTY, VARIANTS, cells, grid, in_cell, is_as_declared

FEWEST = 2
FEWEST_VARIANTS = 20


@pytest.mark.parametrize("name", list(grid()))
def test_an_edited_run_is_judged_as_declared(name: str, tmp_path: Path) -> None:
    run = grid()[name]
    outcome = outcome_of(run, tmp_path / "judged")
    assert is_as_declared(run, outcome), f"{outcome.status} {outcome.ids}: {outcome.sentence}"


@pytest.mark.parametrize("cell", list(cells()), ids=" x ".join)
def test_a_cell_is_filled_or_said_to_be_empty(cell: tuple[Source, Link]) -> None:
    caught, honest = (len(in_cell(cell, direction)) for direction in (Direction.CAUGHT, Direction.HONEST))
    if cell in EMPTY:
        assert not caught and EMPTY[cell]
    else:
        assert min(caught, honest) >= FEWEST, (caught, honest)


def test_each_fault_has_an_honest_twin_in_the_same_file() -> None:
    for run in grid().values():
        if run.direction is Direction.CAUGHT:
            twin = grid()[run.twin]
            assert (twin.direction, twin.source) == (Direction.HONEST, run.source), run.name


def test_what_cannot_be_seen_says_why() -> None:
    hidden = [run for run in grid().values() if run.direction is Direction.UNSEEN]
    assert hidden and all(run.why for run in hidden)


def test_many_kinds_of_honest_runs_are_among_them() -> None:
    assert len(VARIANTS) >= FEWEST_VARIANTS
    assert {grid()[name].direction for name in VARIANTS.values()} == {Direction.HONEST}
