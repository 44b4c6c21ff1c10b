"""Define the settings that sections are made of, and the context that every section may look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlx.backends.mindspeed_rl.models import sub_config
from rlx.backends.shared import rendering
from rlx.backends.shared.overrides import Override

MODEL = "megatron_training.model"
LOAD = "actor_config.load"
CRITIC_LOAD = "critic_config.load"
HYDRA_DIR = "hydra.run.dir"


@dataclass(frozen=True, slots=True)
class Rendering(rendering.Rendering):
    """A resolved recipe and the keys of the MindSpeed-RL it is written for."""

    @property
    def kind(self) -> str:
        return self.recipe.algorithm.kind

    @property
    def npus(self) -> int:
        return self.recipe.layout.nodes * self.recipe.layout.devices_per_node

    @property
    def longest(self) -> int:
        """Tokens of the longest sample: prompt and response."""
        return self.recipe.data.max_prompt_tokens + self.recipe.data.max_response_tokens

    @property
    def model_name(self) -> str | None:
        """The model's description by name: what the recipe's overrides say, else what MindSpeed-RL ships."""
        said = self.recipe.overrides.get(MODEL)
        return said if isinstance(said, str) else sub_config(self.recipe.model.arch)

    @property
    def verifiers(self) -> tuple[str, ...]:
        """Named in the recipe; () for a reward that has none."""
        from rlx.recipe.schema import VerifierReward

        reward = self.recipe.reward
        if isinstance(reward, VerifierReward):
            return reward.verifiers
        return (reward,) if isinstance(reward, str) else ()


def plain(section: str, source: str, values: Mapping[str, object]) -> Iterator[Override]:
    """Settings that all follow from one key of the recipe, or from the back-end alone."""
    return (Override(f"{section}.{name}", value, source) for name, value in values.items())
