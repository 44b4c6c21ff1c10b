"""The page on the first users' commands is what the benchmark writes, and each difference has its reason."""

from __future__ import annotations

import pytest

from benchmarks.seed_commands import REASONS, RECIPES, differences, main


def test_the_page_is_up_to_date() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize("seed", RECIPES)
def test_each_difference_has_a_reason_and_each_reason_a_difference(seed: str) -> None:
    assert set(differences(seed)) == set(REASONS[seed])
