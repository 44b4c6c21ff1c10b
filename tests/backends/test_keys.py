"""Key tables: which one is taken, and what a wrong key is answered with."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.backends.shared.rendering import KeyTable
from rlx.backends.verl.keys import TRAINERS, find_rename, find_table, shipped_versions
from rlx.errors import UsageError
from tests.backends.conftest import VERSIONS

KEYS = sorted(find_table("0.9.1", "ppo_trainer").defaults)


def test_shipped_versions_are_in_order() -> None:
    assert shipped_versions() == VERSIONS


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("0.6.1", "0.6.1"),
        ("0.9.0", "0.9.1"),
        ("0.9.7", "0.9.1"),
        ("0.7.1+aqn", "0.7.1"),
        ("0.8.0.dev3", "0.8.0"),
        ("v0.8", "0.8.0"),
        ("0.10.0.dev0", "0.10.0.dev"),
        ("0.10.0", "0.10.0.dev"),
    ],
)
def test_the_table_of_a_version(wanted: str, taken: str) -> None:
    assert find_table(wanted, TRAINERS[0]).version == taken


@pytest.mark.parametrize("wanted", ["0.5.0", "0.11.0", "1.0.0", "main", "0"])
def test_no_table_is_guessed(wanted: str) -> None:
    with pytest.raises(UsageError, match=re.escape(wanted)):
        find_table(wanted, TRAINERS[0])


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(KEYS), st.data())
def test_one_wrong_letter_is_forgiven(key: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(key) - 1))
    misspelt = key[:place] + "x" + key[place + 1 :]
    table = find_table("0.9.1", "ppo_trainer")
    if misspelt not in table:
        assert key in table.nearest(misspelt, count=5)


def test_sections_are_known_and_parts_of_words_are_not() -> None:
    table = KeyTable.of("x", {"a.b.c": 1})
    assert [key for key in ("a", "a.b", "a.b.c", "hydra.run.dir", "hydra/launcher") if key not in table] == []
    assert [key for key in ("a.", "a.b.", "b", "a.b.c.d", "hydration", "") if key in table] == []


def test_each_rename_leads_to_a_key_of_some_version() -> None:
    from rlx.backends.verl.keys import _rows

    tables = [find_table(version, trainer) for version in VERSIONS for trainer in TRAINERS]
    for row in _rows()["names"]:
        for name in row["names"]:
            assert any(name in table for table in tables), name


@pytest.mark.parametrize("version", VERSIONS)
def test_no_current_key_is_called_renamed(version: str) -> None:
    """A key is called renamed only if the version has another one for it."""
    for trainer in TRAINERS:
        table = find_table(version, trainer)
        renamed = {key for key in table.defaults if find_rename(key, table, version)}
        legacy = ("custom_reward_function.", "reward_model.", "sandbox_fusion.")
        assert all(key.startswith(legacy) for key in renamed)
        assert bool(renamed) is (version != "0.6.1")
