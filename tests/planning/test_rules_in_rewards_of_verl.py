"""The reward functions of the cases, loaded and called as verl's reward workers do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planning.verl_configuration import configured, resolved

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


def reward_of(name: str) -> Any:
    """The recipe's reward function as verl's reward workers load it: by the path that it has here."""
    from verl.trainer.ppo.reward import get_custom_reward_fn

    recipe, config = resolved(name).recipe, configured(resolved(name))
    config.reward.custom_reward_function.path = recipe.reward.path  # type: ignore[union-attr]
    return get_custom_reward_fn(config)


def scored(name: str) -> Any:
    """One answer, passed as verl's reward managers pass it."""
    return reward_of(name)(data_source="any", solution_str="#### 5", ground_truth="5", extra_info={"num_turns": None})


@pytest.mark.parametrize(
    ("name", "raised", "words"),
    [
        ("RLX140-breaks-gone", FileNotFoundError, "gone.py"),
        ("RLX140-breaks-no-python", RuntimeError, "Error loading module"),
        ("RLX141-breaks-other-name", AttributeError, "Object not found in module: object_name='score'"),
        ("RLX142-breaks-other-arguments", TypeError, "data_source"),
        ("RLX142-breaks-kwargs-refused", TypeError, "tag"),
    ],
)
def test_verl_cannot_use_the_reward_function(name: str, raised: type[Exception], words: str) -> None:
    with pytest.raises(raised, match=words):
        scored(name)


@pytest.mark.parametrize(
    "name", ["RLX140-passes-gone", "RLX141-passes-other-name", "RLX142-passes-kwargs-taken", "RLX143-passes-returns"]
)
def test_verl_uses_the_reward_function(name: str) -> None:
    assert isinstance(scored(name), int | float | dict)


def test_a_function_that_returns_nothing_scores_none() -> None:
    assert scored("RLX143-breaks-returns-nothing") is None


def test_verl_looks_its_reward_manager_up() -> None:
    from verl.trainer.ppo.reward import resolve_reward_manager_cls

    assert resolve_reward_manager_cls(configured(resolved("RLX143-passes-returns"))).__name__ == "NaiveRewardManager"
    with pytest.raises(ValueError, match="Unknown reward manager: naïve"):
        resolve_reward_manager_cls(configured(resolved("RLX144-breaks-manager")))
