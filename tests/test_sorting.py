"""The sorting of the tests into groups and the order of a group."""

from __future__ import annotations

from tests.conftest import REPOSITORY
from tests.sorting import CONTRACTS, GROUPS, LONG, QUICK, file_group, missing_tests, mixed

TESTS = REPOSITORY / "tests"


def test_each_group_has_files_and_each_file_a_group() -> None:
    groups = {file_group(path) for path in TESTS.rglob("test_*.py") if "cases" not in path.parts}
    assert groups == set(GROUPS) - {QUICK, CONTRACTS}


def test_a_pattern_that_names_no_file_is_noticed() -> None:
    unused = [each for row in GROUPS.values() for each in row.get("paths", ()) if not list(TESTS.glob(f"**/{each}"))]
    assert unused == []


def test_a_group_that_continuous_integration_runs_has_its_evidence() -> None:
    for name, row in GROUPS.items():
        assert ("stable" in row) == ("seconds" in row), name


def test_what_takes_long_is_there() -> None:
    assert [path for path in LONG if not (TESTS / path).is_file()] == []


def test_what_computes_is_spread_between_what_waits_and_is_left_for_the_end() -> None:
    order = "".join(mixed("w" * 20, "c" * 40))
    assert [order[start : start + 15].count("w") for start in range(0, 60, 15)] == [6, 5, 5, 4]
    assert order.endswith("cccc")
    assert (mixed("w", ""), mixed("", "c")) == (["w"], ["c"])


def test_a_group_that_lost_tests_is_an_error() -> None:
    least = GROUPS[QUICK]["at_least"]
    assert missing_tests([QUICK], least) == ""
    assert f"quick: {least - 1} tests, and tests/groups.toml expects {least}" in missing_tests([QUICK], least - 1)
