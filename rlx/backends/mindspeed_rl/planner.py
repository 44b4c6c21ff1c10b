"""A resolved recipe becomes a LaunchPlan: the same input always gives the same plan, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.checks import rendering_of
from rlx.backends.mindspeed_rl.expectations import expectations
from rlx.backends.mindspeed_rl.noise import noise_files
from rlx.backends.mindspeed_rl.script import Script, render
from rlx.backends.mindspeed_rl.sections import Rendering, document, settings_of
from rlx.backends.shared.assembly import Launch, launch_plan
from rlx.backends.shared.effective import EffectiveSettings
from rlx.backends.shared.payload_files import modules, program
from rlx.backends.shared.post import POST_NAMES, post_files, reward_files
from rlx.errors import UsageError
from rlx.model import Installation, LaunchPlan, PlannedFile, Site
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

_MOST_NPUS = 1024
_TRAINERS = {"grpo": "cli/train_grpo.py", "dapo": "cli/train_dapo.py", "ppo": "cli/train_ppo.py"}
_PAYLOAD = ("provenance.py", "provenance_weights.py", "mindspeed_rl_env.py")
# What examples/grpo/*.sh export; the recipe's `env` and the host's come over these.
_ENVIRONMENT = {"TASK_QUEUE_ENABLE": "2", "HYDRA_FULL_ERROR": "1", "MALLOC_MMAP_THRESHOLD_": "512768"}


def plan(resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
    """The launch of one arm with one seed. Raises UsageError for what cannot be written down at all."""
    recipe, rendering = resolved.recipe, rendering_of(resolved, found)
    settings = settings_of(rendering)
    script, promised = _script(resolved, site, settings), expectations(rendering, settings)
    launch = Launch(
        version=rendering.version,
        command=(script.python, "-u", script.entrypoint, *script.arguments),
        env=script.env,
        script=render(script),
        files=(*_files(rendering, script), *noise_files(recipe, promised.noise)),
        promised=promised,
        devices=recipe.layout.devices_per_node,
        # A worker takes the NPU with the number that Ray gives it, and that counts from 0 (cli/train_grpo.py,
        # `_initialize_distributed`): no other devices can be had.
        device_list=tuple(range(recipe.layout.devices_per_node)),
    )
    return launch_plan(resolved, site, launch)


def entrypoint_of(recipe: Recipe) -> str:
    """Raises UsageError for an algorithm without a trainer."""
    if recipe.backend.entrypoint:
        return recipe.backend.entrypoint
    if trainer := _TRAINERS.get(recipe.algorithm.kind):
        return trainer
    raise UsageError(
        f"algorithm.kind: MindSpeed-RL has no trainer for {recipe.algorithm.kind}", f"use one of {', '.join(_TRAINERS)}"
    )


def checkout_of(recipe: Recipe) -> str:
    """Raises UsageError for a recipe that names none."""
    if recipe.backend.workdir is None:
        raise UsageError(
            "backend.workdir: MindSpeed-RL starts from the root of its checkout",
            "write the folder on the host that holds cli/ and configs/",
        )
    return recipe.backend.workdir


def _script(resolved: ResolvedRecipe, site: Site, settings: EffectiveSettings) -> Script:
    recipe = resolved.recipe
    checkout_of(recipe)
    if recipe.layout.devices_per_node > _MOST_NPUS:
        raise UsageError(f"layout.devices_per_node: no machine has {recipe.layout.devices_per_node} NPUs")
    return Script.of(recipe, site, settings, resolved.arm, entrypoint_of(recipe), _ENVIRONMENT)


def _files(rendering: Rendering, script: Script) -> Iterator[PlannedFile]:
    import yaml

    config = yaml.safe_dump(document(rendering), sort_keys=False, allow_unicode=True)
    yield PlannedFile(script.config_file, config)
    yield PlannedFile(f"{PAYLOAD_DIR}/mindspeed_rl_env.json", json.dumps(dict(script.worker_env), indent=1) + "\n")
    yield from script.ray.files()
    yield from modules("provenance")
    yield program("mindspeed_rl_env.py", payload_folder("mindspeed_rl"))
    yield from post_files(rendering.recipe, ())
    yield from reward_files(rendering.recipe, {*_PAYLOAD, "mindspeed_rl_env.json", *POST_NAMES})
