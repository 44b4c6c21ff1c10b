"""The cases as verl itself would be configured with them."""

from __future__ import annotations

from typing import Any

from hydra import compose, initialize_config_dir

from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.overrides import chosen
from rlx.recipe import ResolvedRecipe, load_recipe
from tests.backends.conftest import config_tree
from tests.conftest import CASES
from tests.wheels import INSTALLED


def resolved(name: str) -> ResolvedRecipe:
    return load_recipe(CASES / "preflight" / name / "recipe.yaml").resolve("main")


def configured(recipe: ResolvedRecipe) -> Any:
    """What `main_ppo` of the verl that is installed here would get."""
    rendering = rendering_of(recipe)
    assert rendering.version == INSTALLED
    with initialize_config_dir(str(config_tree(INSTALLED)), version_base=None):
        # Paths of a run are not there yet.
        arguments = [override.argument() for override in chosen(rendering) if not override.key.startswith("hydra")]
        return compose("ppo_trainer", arguments)


def validate(recipe: ResolvedRecipe) -> None:
    """As `main_ppo` does it first. Raises what verl raises."""
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    config = configured(recipe)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
