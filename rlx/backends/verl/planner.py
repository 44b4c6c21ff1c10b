"""A resolved recipe becomes a LaunchPlan: the same input always gives the same plan, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rlx.backends.shared.assembly import Launch, launch_plan
from rlx.backends.shared.key_table import KeyTable
from rlx.backends.shared.noise import NOISE, payload_settings
from rlx.backends.shared.payload_files import modules
from rlx.backends.shared.post import POST_NAMES, post_files, reward_files
from rlx.backends.shared.ray_settings import RaySettings
from rlx.backends.shared.shell import Quoted
from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.expectations import Length, expectations, run_length, settings_of
from rlx.backends.verl.merger import merge_arguments
from rlx.backends.verl.overrides import Rendering, chosen, cpu, noise
from rlx.backends.verl.overrides.layout import config_name
from rlx.backends.verl.script import Script, render
from rlx.backends.verl.script import program as started_program
from rlx.plan import START_VARIABLES, Installation, LaunchPlan, PlannedFile, Site
from rlx.plan.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

ENTRYPOINT = "verl.trainer.main_ppo"


def plan(resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
    """The launch of one arm with one seed. Raises UsageError for what cannot be written down at all."""
    recipe, rendering = resolved.recipe, rendering_of(resolved, found)
    overrides = chosen(rendering)
    settings = settings_of(overrides)
    length = run_length(rendering, settings)
    script = _script(rendering, site, tuple(override.argument() for override in overrides))
    launch = Launch(
        version=rendering.version,
        command=(script.python, "-u", *script.program, *script.arguments),
        env=script.env,
        script=render(script),
        files=tuple(_files(rendering, length)),
        promised=expectations(rendering, settings),
        devices=1 if recipe.layout.device == "cpu" else recipe.layout.devices_per_node,
    )
    return launch_plan(resolved, site, launch)


def question_script(resolved: ResolvedRecipe, site: Site, question: str, arguments: tuple[str, ...]) -> str:
    """bash that runs a Python program as launch.sh would run the training: its place, environment and interpreter.

    The script's own arguments come before `arguments`.
    """
    # Neither the environment nor the place depends on the keys.
    recipe = resolved.recipe
    rendering = Rendering(resolved, recipe, KeyTable.of("", {}), recipe.backend.version)
    script = replace(
        _script(rendering, site, ()), title="nothing: it only looks", arguments=arguments, look=Quoted(question)
    )
    return "".join(f"export {name}=\n" for name in START_VARIABLES) + render(script)


def _script(rendering: Rendering, site: Site, arguments: tuple[str, ...]) -> Script:
    recipe = rendering.recipe
    name = config_name(rendering)
    env = {**site.env, **cpu.environment(rendering), **recipe.env}
    return Script(
        title=f"{recipe.name}, arm {rendering.resolved.arm}, seed {recipe.seed}",
        device=recipe.layout.device,
        python=recipe.backend.python,
        program=started_program(recipe.backend.entrypoint or ENTRYPOINT),
        arguments=(f"--config-name={name}", *arguments) if name else arguments,
        workdir=recipe.backend.workdir,
        model=recipe.model.path,
        data_files=(recipe.data.train, recipe.data.val, *([recipe.eval.post.rows] if recipe.eval.post else ())),
        env=env | noise.environment(rendering, env),
        path_prefix=site.path_prefix,
        setup=site.setup,
        nodes=recipe.layout.nodes,
        post=recipe.eval.post is not None,
    )


def _files(rendering: Rendering, length: Length) -> Iterator[PlannedFile]:
    recipe, programs = rendering.recipe, tuple(_programs(rendering))
    yield from programs
    if recipe.layout.nodes > 1:
        yield from ray_settings(rendering).files()
    if recipe.aqn and recipe.aqn.provider == "payload" and length.total is not None:
        yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", payload_settings(recipe, length.total, length.epoch))
    yield from post_files(recipe, merge_arguments(rendering))
    names = {PurePosixPath(file.path).name for file in programs}
    yield from reward_files(recipe, {*names, "aqn.json", *POST_NAMES})


def ray_settings(rendering: Rendering) -> RaySettings:
    """The Ray of several nodes. Devices are what Ray finds behind CUDA_VISIBLE_DEVICES or ASCEND_RT_VISIBLE_DEVICES."""
    layout, on_cpu = rendering.recipe.layout, rendering.recipe.rollout.engine == "cpu"
    device = "NPU" if layout.device == "npu" else "GPU"
    return RaySettings(
        offers=cpu.resources(layout.devices_per_node) if on_cpu else {},
        each_node={device: layout.devices_per_node},
        all_nodes={device: layout.nodes * layout.devices_per_node},
        waiting="that verl asks for",
        fix="hosts with as many devices as layout.devices_per_node, each visible in its container",
        object_store_memory=cpu.OBJECT_STORE_BYTES if on_cpu else None,
    )


def _programs(rendering: Rendering) -> Iterator[PlannedFile]:
    recipe = rendering.recipe
    yield from modules("provenance")
    if recipe.aqn and recipe.aqn.provider == "payload":
        yield from modules(NOISE)
    if noise.is_hooked(rendering):
        yield from modules(noise.HOOK, payload_folder("verl"))
    if recipe.rollout.engine == "cpu":
        yield from modules(cpu.PLUGIN, payload_folder("verl"))
