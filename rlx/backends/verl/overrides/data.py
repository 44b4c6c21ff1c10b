"""Data sets, lengths in tokens, and the reward."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlx.backends.shared.overrides import Override, path_on_all_nodes, path_override, refuse_interpolation
from rlx.backends.verl.overrides.base import Rendering
from rlx.model.run_dir import PAYLOAD_DIR


def overrides(rendering: Rendering) -> Iterator[Override]:
    data = rendering.recipe.data
    yield path_override("data.train_files", data.train, "data.train")
    yield path_override("data.val_files", data.val, "data.val")
    yield Override("data.prompt_key", data.prompt_key, "data.prompt_key")
    yield Override("data.max_prompt_length", data.max_prompt_tokens, "data.max_prompt_tokens")
    yield Override("data.max_response_length", data.max_response_tokens, "data.max_response_tokens")
    # verl's default ends the run at the first prompt that is too long.
    yield Override("data.filter_overlong_prompts", True, "data.max_prompt_tokens")
    yield from _reward(rendering)


def _reward(rendering: Rendering) -> Iterator[Override]:
    """A named reward is verl's own, which it picks by the data's `data_source`; a file travels with the run."""
    from rlx.recipe.schema import FunctionReward

    reward = rendering.recipe.reward
    if not isinstance(reward, FunctionReward):
        return
    path = rendering.table.first("reward.custom_reward_function.path", "custom_reward_function.path")
    section = path.removesuffix(".path")
    refuse_interpolation(reward.path, "reward.path")
    file = path_on_all_nodes(rendering.recipe, f"{PAYLOAD_DIR}/{Path(reward.path).name}")
    yield Override(path, file, "reward.path", verbatim=True)
    yield Override(f"{section}.name", reward.function, "reward.function")
    if reward.kwargs:
        yield rendering.added(f"{section}.reward_kwargs", reward.kwargs, "reward.kwargs")
