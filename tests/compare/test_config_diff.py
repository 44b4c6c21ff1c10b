from __future__ import annotations

from rlx.compare.difference_areas import ConfigDifference, area_of
from rlx.compare.run_differences import recipe_differences


def test_declared_treatment_is_told_from_the_rest() -> None:
    control = {"name": "a", "train": {"lr": 1e-6, "epochs": 2}, "seed": 1}
    treatment = {"name": "b", "train": {"lr": 2e-6, "epochs": 3}, "seed": 1}
    assert recipe_differences(control, treatment, ["train.lr"]) == (
        ConfigDifference("train.epochs", 2, 3, declared=False),
        ConfigDifference("train.lr", 1e-6, 2e-6, declared=True),
    )


def test_section_that_only_one_arm_has_is_one_declared_difference() -> None:
    noise = {"sigma_start": 0.05, "layer_types": ["rmsnorm"]}
    found = recipe_differences({"aqn": None}, {"aqn": noise}, ["aqn.sigma_start"])
    assert found == (ConfigDifference("aqn", None, noise, declared=True),)


def test_declaring_a_section_declares_its_leaves() -> None:
    (found,) = recipe_differences({"aqn": {"stages": 10}}, {"aqn": {"stages": 5}}, ["aqn"])
    assert (found.key, found.declared) == ("aqn.stages", True)


def test_keys_that_merely_begin_alike_are_not_declared() -> None:
    (found,) = recipe_differences({"train": {"lr_decay": 1}}, {"train": {"lr_decay": 2}}, ["train.lr"])
    assert not found.declared


def test_lists_are_compared_whole_and_equal_documents_do_not_differ() -> None:
    (found,) = recipe_differences({"l": [1, 2]}, {"l": [2, 1]}, [])
    assert found == ConfigDifference("l", [1, 2], [2, 1])
    assert recipe_differences({"a": {"b": [1]}}, {"a": {"b": [1]}}, []) == ()


def test_prefixes_of_overrides_say_nothing_of_the_key() -> None:
    one, other = ({"overrides": overrides} for overrides in ({"+a.b": 1, "c": {"d": 2}}, {"++a": {"b": 1}, "c.d": 3}))
    assert recipe_differences(one, other, ["overrides.+c.d"]) == (
        ConfigDifference("overrides.c.d", 2, 3, declared=True, area=area_of("overrides.c.d")),
    )


def test_a_removed_key_differs_from_one_that_is_left_alone() -> None:
    (found,) = recipe_differences({"overrides": {}}, {"overrides": {"~a.b": None}}, [])
    assert (found.key, found.control, found.treatment, found.declared) == ("overrides.a.b", None, "(removed)", False)
