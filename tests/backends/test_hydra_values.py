"""Every value must come back from Hydra's own parser as it went in."""

from __future__ import annotations

import math

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlx.backends.shared.overrides import hydra_value, refuse_interpolation
from rlx.errors import UsageError

PARSER = OverridesParser.create()
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
NASTY = st.text(st.sampled_from("'\"\\${}[]():=, \n\t\r#~+@?é漢🙂a1.-/"), max_size=12)
KEYS = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True).filter(
    lambda k: k not in {"nan", "inf", "null", "true", "false"}
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | NASTY
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


def parsed(value: object) -> object:
    return plain(PARSER.parse_override(f"a.b={hydra_value(value)}").value())


def plain(value: object) -> object:
    """Hydra keeps the quoting beside a string; what OmegaConf gets is its text."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    return value


@settings(deadline=None)
@given(TEXTS | NASTY)
@example("")
@example("null")
@example("True")
@example("5")
@example("1e3")
@example("a\\")
@example("it's \\' \"x\" \\\\")
@example("${oc.env:HOME}/x")
@example("line\nbreak")
@example("nan")
@example(" leading")
@example("x_y:z")
def test_any_text_survives(text: str) -> None:
    back = parsed(text)
    assert back == text
    assert type(back) is str


@settings(deadline=None)
@given(VALUES)
def test_any_value_survives(value: object) -> None:
    assert parsed(value) == value
    assert repr(parsed(value)) == repr(value)


def test_not_a_number_survives() -> None:
    back = parsed(math.nan)
    assert isinstance(back, float) and math.isnan(back)


@pytest.mark.parametrize("text", ["gsm8k", "vllm", "openai/gsm8k", "low_var_kl", "Qwen2.5-1.5B"])
def test_plain_words_stay_readable(text: str) -> None:
    assert hydra_value(text) == text


@pytest.mark.parametrize("value", ["a\0b", "\ud800", {"a b": 1}, {1: 2}, {"nan": 1}, b"bytes", {"": 1}])
def test_what_hydra_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(UsageError):
        hydra_value(value)


@pytest.mark.parametrize("value", ["cost ${x}", "${oc.env:HOME}", "???", ["ok", "${x}"], {"a": "\\${x}"}])
def test_text_that_omegaconf_would_replace_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"reward\.kwargs"):
        refuse_interpolation(value, "reward.kwargs")


@pytest.mark.parametrize("value", ["5 $", "{x}", "what???", ["a"], {"a": 1}, None, 3])
def test_other_text_is_left_alone(value: object) -> None:
    refuse_interpolation(value, "reward.kwargs")
