"""A table is a dictionary of dictionaries, only smaller: held against one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.evidence.reading.metric_table import MetricTable

Rows = dict[int, dict[str, float]]
ROW = st.dictionaries(st.sampled_from("abcd"), st.floats(allow_nan=False), max_size=3)
ROWS = st.dictionaries(st.integers(0, 12), ROW, max_size=8).map(lambda rows: dict(sorted(rows.items())))


def table(rows: Rows) -> MetricTable:
    filled = MetricTable()
    for step, values in rows.items():
        filled.put(step, values)
    return filled


def merged(first: Rows, second: Rows) -> Rows:
    return {step: first.get(step, {}) | second.get(step, {}) for step in sorted(first | second)}


@settings(deadline=None)
@given(ROWS)
def test_it_holds_what_was_put(rows: Rows) -> None:
    held = table(rows)
    assert (held == rows, list(held), len(held)) == (True, list(rows), len(rows))
    assert {step: held[step] for step in held} == dict(held.items()) == rows
    assert list(held.values()) == list(rows.values())
    assert all((step in held) == (step in rows) for step in range(13))
    assert list(map(set, held.forms())) == list(map(set, rows.values()))
    assert held.series("a") == {step: values["a"] for step, values in rows.items() if "a" in values}


@settings(deadline=None)
@given(ROWS, ROWS)
def test_of_two_the_second_wins(first: Rows, second: Rows) -> None:
    assert table(first).updated(table(second)) == merged(first, second)


@settings(deadline=None)
@given(ROWS, st.integers(-1, 13), ROW)
def test_it_goes_on_where_it_was_cut(rows: Rows, step: int, more: dict[str, float]) -> None:
    whole, kept = table(rows), {known: values for known, values in rows.items() if known <= step}
    cut = whole.until(step)
    assert cut == kept
    cut.put(13, more)
    assert cut == {**kept, 13: more} and whole == rows


def test_a_step_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        table({1: {"a": 1}})[2]
