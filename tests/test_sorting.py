"""The sorting of the tests, and their number."""

from __future__ import annotations

import pytest

from tests.conftest import REPOSITORY
from tests.sorting import COLLECTED, LONG, mixed

# Raise it with the tests that you add. Where it has to fall, the commit says which tests went and why.
AT_LEAST = 7200


def test_no_test_got_lost(pytestconfig: pytest.Config) -> None:
    if pytestconfig.args != pytestconfig.getini("testpaths"):
        pytest.skip("only a part of the tests was collected")
    assert pytestconfig.stash[COLLECTED] >= AT_LEAST


def test_what_takes_long_is_there() -> None:
    assert [path for path in LONG if not (REPOSITORY / "tests" / path).is_file()] == []


def test_what_computes_is_spread_between_what_waits_and_is_left_for_the_end() -> None:
    order = "".join(mixed("w" * 20, "c" * 40))
    assert [order[start : start + 15].count("w") for start in range(0, 60, 15)] == [6, 5, 5, 4]
    assert order.endswith("cccc")
    assert (mixed("w", ""), mixed("", "c")) == (["w"], ["c"])
