"""Words must be read as Hydra's own parser reads them."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings

from rlx.backends.shared.overrides import hydra_value
from rlx.yaml_reader.hydra import bare_key, bare_leaves, read_value, read_word
from tests.backends.test_hydra_values import VALUES, plain

PARSER = OverridesParser.create()
TEXTS = [
    *(
        "1",
        "-1",
        "+1",
        "1_000",
        "007",
        "1e-6",
        "1E3",
        ".5",
        "5.",
        "-.5e-3",
        "True",
        "false",
        "null",
        "null2",
        "inf",
        "-INF",
        "abc",
        "a b",
    ),
    *("", "''", "'a b'", '"a\\"b"', "'it\\'s'", "'\\\\'", "[a,b]", "['console','wandb']", "[1, 2.5, x y]", "[]", "{}"),
    *(
        "[[1,2],[3]]",
        "{a: 1, b: [x, null]}",
        "${a.b}",
        "[${a},1]",
        "/x/y:z",
        "http://x/y",
        "x@y",
        "a\\,b",
        "\\[a\\]",
        "a  ",
    ),
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_value_as_people_write_it(text: str) -> None:
    assert read_value(text) == plain(PARSER.parse_override(f"k={text}").value())
    assert type(read_value(text)) is type(plain(PARSER.parse_override(f"k={text}").value()))


@settings(deadline=None, max_examples=60)
@given(VALUES)
def test_a_value_as_rlx_writes_it(value: object) -> None:
    word = f"k={hydra_value(value)}"
    found = read_word(word)
    assert found is not None
    expected = plain(PARSER.parse_override(word).value())
    if "nan" not in repr(expected):
        assert found == ("k", expected)


@pytest.mark.parametrize("text", ["[a", "{a: 1", "'a", "[a,b]]", "a=b", "[" * 100, "${a", "{a}", "(1)", "9" * 5000])
def test_what_is_no_value_stays_text(text: str) -> None:
    assert read_value(text) == text


def test_keys_keep_their_prefixes() -> None:
    assert read_word("+a.b=1") == ("+a.b", 1)
    assert read_word("++a.b=x=y") == ("++a.b", "x=y")
    assert read_word("~a.b") == ("~a.b", None)
    assert read_word("--flag") is None
    assert read_word("plain") is None


def test_a_prefix_is_no_part_of_the_key() -> None:
    assert [bare_key(key) for key in ("a.b", "+a.b", "++a.b", "~a.b", "a+b")] == ["a.b", "a.b", "a.b", "a.b", "a+b"]
    assert bare_leaves({"+a": {"b": {"c": 1}, "d": {}}, "~e.f": None, "g": [1]}) == {
        "a.b.c": 1,
        "a.d": {},
        "e.f": "(removed)",
        "g": [1],
    }
