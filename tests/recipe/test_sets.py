"""`--set KEY=VALUE`: typed like the file, stronger than the arms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.errors import UsageError
from rlx.recipe import RecipeFile, load_recipe
from rlx.secret_text import names_secret
from tests.recipe.conftest import RECIPE

Load = Callable[..., RecipeFile]


@pytest.mark.parametrize(
    ("option", "keys", "value"),
    [
        ("train.lr=1e-6", ("train", "lr"), 1e-6),
        ("train.batch_size=64", ("train", "batch_size"), 64),
        ("model.lora={rank: 8, alpha: 16}", ("model", "lora", "rank"), 8),
        ("overrides.trainer.project_name=x", ("overrides", "trainer.project_name"), "x"),
        ("overrides.+a.b=[1, two]", ("overrides", "+a.b"), [1, "two"]),
        ("env.VLLM_USE_V1=1", ("env", "VLLM_USE_V1"), "1"),
        ("env.A=x=y: z", ("env", "A"), "x=y: z"),
        ("env.EMPTY=", ("env", "EMPTY"), ""),
        ("secrets=[HF_TOKEN]", ("secrets",), ["HF_TOKEN"]),
        ("name=other", ("name",), "other"),
    ],
)
def test_sets_a_typed_value(load: Load, option: str, keys: tuple[str, ...], value: Any) -> None:
    resolved = load(option).resolve("baseline")
    found: Any = resolved.document
    for key in keys:
        found = found[key]
    assert found == value
    assert type(found) is type(value)
    assert resolved.origins[".".join(keys)] == "--set"


def test_beats_the_arm_and_takes_the_key_out_of_the_treatment(load: Load) -> None:
    resolved = load("train.lr=1e-3").resolve("fast-1.5")
    assert resolved.recipe.train.lr == 1e-3
    assert resolved.treatment == ()


def test_changes_one_arm_even_with_a_dot_in_its_name(load: Load) -> None:
    file = load("arms.aqn.aqn.sigma_start=0.1", "arms.fast-1.5.train.lr=2e-5", "arms.fast-1.5.overrides.a.b=1")
    aqn = file.resolve("aqn").recipe.aqn
    assert aqn is not None
    assert (aqn.sigma_start, aqn.sigma_end) == (0.1, 0.0005)
    fast = file.resolve("fast-1.5")
    assert fast.recipe.train.lr == 2e-5
    assert fast.treatment == ("overrides.a.b", "train.lr")
    assert file.resolve("baseline").recipe.train.lr == 5e-7


def test_adds_an_arm(load: Load) -> None:
    file = load("arms.slow={train: {lr: 1e-9}}")
    assert file.arms == ("baseline", "aqn", "fast-1.5", "slow")
    assert file.resolve("slow").treatment == ("train.lr",)


def test_null_removes_in_the_recipe_and_in_the_arm(load: Load) -> None:
    file = load("aqn=null", "overrides.trainer.save_freq=null")
    assert file.resolve("aqn").recipe.aqn is None
    assert file.resolve("aqn").recipe.overrides == {"trainer.project_name": "p"}


def test_the_last_one_wins(load: Load) -> None:
    assert load("train.lr=1e-3", "train.lr=2e-3").resolve("baseline").recipe.train.lr == 2e-3
    assert load("train.epochs=5", "train.epochs=null").resolve("baseline").recipe.train.epochs == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("train.lr", "is not KEY=VALUE"),
        ("=1", "is not KEY=VALUE"),
        ("train..lr=1", "is not KEY=VALUE"),
        ("train.lr=", "has no value"),
        ("extends=x.yaml", "extends belongs into the file"),
        ("train.lr=[1", "--set: train.lr: a ["),
        ("train.lr=!!python/name:os.system x", "tags are not read"),
        ("train.lr=.nan", "--set: train.lr: .nan is no finite number"),
        ("train.lr=fast", '--set: train.lr: must be a number, found the text "fast"'),
        ("train.batch_sise=1", "--set: train.batch_sise: unknown key; did you mean batch_size?"),
        ("train.lr.x=1", "--set: train.lr: must be a number, found a map"),
        ("control=aqm", "did you mean aqn?"),
        ("arms.aqn.aqn.stages=1", "--set: arm aqn: aqn.stages: must be at least 3, found 1"),
        ("env.MY_TOKEN=abc", "looks like a secret"),
        ("env.http_proxy=http://me:hunter2@proxy:80", "env.http_proxy: holds a password or key"),
        ("arms.aqn.env.http_proxy=http://me:hunter2@proxy:80", "env.http_proxy: holds a password or key"),
        ("overrides.+trainer.hub_token=hunter2", "overrides.+trainer.hub_token: holds a password or key"),
    ],
)
def test_says_what_is_wrong(load: Load, option: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(option)
    assert message in caught.value.message


def _is_a_usable_key(key: str) -> bool:
    """Tell whether a map may have this key, whatever stands under it."""
    return key not in ("", "<<") and not names_secret(key)


PRINTABLE = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp", "Cn", "Co")), max_size=20)
SCALARS = (
    st.booleans()
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | PRINTABLE
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PRINTABLE.filter(_is_a_usable_key), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def shared_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


@settings(deadline=None)
@given(value=VALUES)
def test_any_json_value_arrives_as_it_was(shared_recipe: Path, value: Any) -> None:
    option = f"overrides.x={json.dumps(value, ensure_ascii=False)}"
    assert load_recipe(shared_recipe, [option]).resolve("baseline").document["overrides"]["x"] == value


@settings(deadline=None)
@given(text=PRINTABLE)
def test_any_environment_value_arrives_as_it_was(shared_recipe: Path, text: str) -> None:
    assert load_recipe(shared_recipe, [f"env.A={text}"]).resolve("aqn").document["env"]["A"] == text
