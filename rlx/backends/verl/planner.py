"""A resolved recipe becomes a LaunchPlan: the same input always gives the same plan, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rlx.backends.shared.assembly import Launch, launch_plan
from rlx.backends.shared.noise import NOISE, payload_settings, watch_settings
from rlx.backends.shared.payload_files import RaySettings, modules
from rlx.backends.shared.post import POST_NAMES, post_files, reward_files
from rlx.backends.shared.tracking import track_variables
from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.expectations import expectations, settings_of
from rlx.backends.verl.merger import merge_arguments
from rlx.backends.verl.overrides import Rendering, ascend, chosen, cpu, noise, rollout, track, weights
from rlx.backends.verl.overrides.layout import config_name
from rlx.backends.verl.run_length import Length, run_length
from rlx.backends.verl.script import Script, render
from rlx.backends.verl.script import program as started_program
from rlx.backends.verl.trainers import program_of
from rlx.backends.verl.weights import files as weight_files
from rlx.model import Expectations, Installation, LaunchPlan, PlannedFile, Site
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe


def plan(resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
    """The launch of one arm with one seed. Raises UsageError for what cannot be written down at all."""
    recipe, rendering = resolved.recipe, rendering_of(resolved, found)
    overrides = chosen(rendering)
    settings = settings_of(overrides)
    length = run_length(rendering, settings)
    promised = expectations(rendering, settings)
    hooked = _is_hooked(recipe, promised.watch is not None)
    arguments = tuple(override.argument() for override in overrides)
    script = _script(rendering, site, arguments, hooked=hooked, recorded=promised.weights is not None)
    launch = Launch(
        version=rendering.version,
        command=(script.python, "-u", *script.program, *script.arguments),
        env=script.env,
        script=render(script),
        files=tuple(_files(rendering, length, promised)),
        promised=promised,
        devices=1 if recipe.layout.device == "cpu" else recipe.layout.devices_per_node,
    )
    return launch_plan(resolved, site, launch)


def _is_hooked(recipe: Recipe, watched: bool = False) -> bool:
    """Tell whether the payload's noise, or its watch, goes into verl's own rollout; rlx's own calls it by itself."""
    return recipe.rollout.engine == "vllm" and (watched or _brings_noise(recipe))


def _brings_noise(recipe: Recipe) -> bool:
    return recipe.aqn is not None and recipe.aqn.provider == "payload"


def _script(rendering: Rendering, site: Site, arguments: tuple[str, ...], *, hooked: bool, recorded: bool) -> Script:
    recipe = rendering.recipe
    name = config_name(rendering)
    env = {**ascend.environment(rendering), **site.env, **cpu.environment(rendering), **recipe.env}
    env |= rollout.environment(recipe, env)
    env |= track.environment(recipe, env)
    env |= noise.environment(env) if hooked else {}
    env |= weights.environment(env) if recorded else {}
    return Script(
        title=f"{recipe.name}, arm {rendering.resolved.arm}, seed {recipe.seed}",
        device=recipe.layout.device,
        python=recipe.backend.python,
        program=started_program(program_of(recipe.backend, rendering.version)),
        arguments=(f"--config-name={name}", *arguments) if name else arguments,
        workdir=recipe.backend.workdir,
        model=recipe.model.path,
        data_files=(recipe.data.train, recipe.data.val, *([recipe.eval.post.rows] if recipe.eval.post else ())),
        env=env,
        path_prefix=site.path_prefix,
        setup=site.setup,
        nodes=recipe.layout.nodes,
        post=recipe.eval.post is not None,
        track=track_variables(rendering.resolved),
    )


def _files(rendering: Rendering, length: Length, promised: Expectations) -> Iterator[PlannedFile]:
    recipe = rendering.recipe
    programs = tuple(_programs(recipe, watched=promised.watch is not None))
    if promised.weights is not None:
        programs += tuple(weight_files(frozenset(file.path for file in programs)))
    yield from programs
    if recipe.layout.nodes > 1:
        yield from ray_settings(rendering).files()
    if settings := _noise_settings(rendering, length, promised):
        yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", settings)
    yield from post_files(recipe, merge_arguments(rendering))
    names = {PurePosixPath(file.path).name for file in programs}
    yield from reward_files(recipe, {*names, "aqn.json", *POST_NAMES})


def _noise_settings(rendering: Rendering, length: Length, promised: Expectations) -> str:
    recipe, watched = rendering.recipe, rendering.resolved.watched
    if length.total is None:
        return ""
    if promised.watch is not None and watched is not None:
        return watch_settings(recipe, watched, length.total)
    if recipe.aqn is None or not _brings_noise(recipe):
        return ""
    return payload_settings(recipe, recipe.aqn, length.total, length.epoch)


def ray_settings(rendering: Rendering) -> RaySettings:
    """The Ray of several nodes. Devices are what Ray finds behind CUDA_VISIBLE_DEVICES or ASCEND_RT_VISIBLE_DEVICES."""
    layout, on_cpu = rendering.recipe.layout, rendering.recipe.layout.device == "cpu"
    device = "NPU" if layout.device == "npu" else "GPU"
    return RaySettings(
        offers=cpu.resources(layout.devices_per_node) if on_cpu else {},
        each_node={device: layout.devices_per_node},
        all_nodes={device: layout.nodes * layout.devices_per_node},
        waiting="that verl asks for",
        fix="hosts with as many devices as layout.devices_per_node, each visible in its container",
        object_store_memory=cpu.OBJECT_STORE_BYTES if on_cpu else None,
    )


def _programs(recipe: Recipe, *, watched: bool) -> Iterator[PlannedFile]:
    yield from modules("provenance")
    if watched or _brings_noise(recipe) or rollout.gives_seeds(recipe) or recipe.track is not None:
        yield from modules(NOISE)
    if _is_hooked(recipe, watched):
        yield from modules(noise.HOOK, payload_folder("verl"))
    if rollout.gives_seeds(recipe):
        yield from modules(rollout.SEEDS, payload_folder("verl"))
    if recipe.track is not None:
        yield from modules(track.GUARD, payload_folder("verl"))
    if recipe.layout.device == "cpu":
        yield from modules(cpu.PLUGIN, payload_folder("verl"))
        if recipe.rollout.engine == "vllm":
            yield from modules(cpu.VLLM_PLUGIN, payload_folder("verl"))
