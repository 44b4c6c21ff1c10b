"""Records that claim to be one run: every value in which they differ is named with both values, and no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlx.evidence import Evidence, Restart, conflicts, overlaps

VALIDATION, TRAINING = "val-core/x/acc/mean@1", "actor/entropy"
Steps = dict[int, dict[str, float]]
steps = st.dictionaries(
    st.integers(0, 9), st.dictionaries(st.sampled_from([VALIDATION, TRAINING]), st.sampled_from([0.25, 0.5, 0.75]))
)


@given(steps, steps)
def test_all_that_differs_and_nothing_else(one: Steps, other: Steps) -> None:
    found = conflicts({"a": Evidence(metrics=one), "b": Evidence(metrics=other)})
    assert {(each.step, each.key, each.values) for each in found} == {
        (step, key, (value, other[step][key]))
        for step, values in one.items()
        for key, value in values.items()
        if other.get(step, {}).get(key, value) != value
    }
    # What a person compares comes first.
    assert [each.key for each in found] == sorted((each.key for each in found), key=lambda key: key != VALIDATION)


@given(steps, steps)
def test_who_comes_first_makes_no_difference(one: Steps, other: Steps) -> None:
    records = {"a": Evidence(metrics=one), "b": Evidence(metrics=other)}
    forth, back = conflicts(records), conflicts(dict(reversed(records.items())))
    assert [each.values for each in forth] == [each.values[::-1] for each in back]


def test_an_attempt_that_says_where_it_went_on_contradicts_nobody() -> None:
    first = Evidence(metrics={1: {VALIDATION: 0.5}, 2: {VALIDATION: 0.5}})
    again = Evidence(metrics={2: {VALIDATION: 0.75}})
    resumed = Evidence(metrics=again.metrics, restarts=(Restart(1, 1, "resumed from the checkpoint of step 1"),))
    assert len(overlaps({"1": first, "2": again})) == 1
    assert overlaps({"1": first, "2": resumed}) == ()
