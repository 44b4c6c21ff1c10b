"""The back-end verl: a recipe becomes Hydra overrides for `verl.trainer.main_ppo`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rlx.backends.shared.assembly import Launch, launch_plan
from rlx.backends.shared.installation_question import installation_question
from rlx.backends.shared.noise import NOISE, payload_settings, watch_settings
from rlx.backends.shared.payload_files import JOB_ENVIRONMENT, RaySettings, modules, program, weight_files
from rlx.backends.shared.post import POST_NAMES, post_files, reward_files
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.shared.shell import Quoted, render_template
from rlx.backends.shared.tracking import track_variables
from rlx.backends.verl.checks import check, rendering_of
from rlx.backends.verl.environment import NOISE_HOOK, SEEDS, TRACK_GUARD, WEIGHT_HOOK, environment, gives_seeds
from rlx.backends.verl.expectations import Length, expectations, run_length, settings_of
from rlx.backends.verl.merger import merge_arguments
from rlx.backends.verl.overrides import (
    CPU_PLUGIN,
    OBJECT_STORE_BYTES,
    VLLM_CPU_PLUGIN,
    VerlRendering,
    chosen,
    cpu_resources,
    guards_trackers,
)
from rlx.backends.verl.trainers import program_of
from rlx.errors import UsageError
from rlx.model import Expectations, Installation, LaunchPlan, PlannedFile, Site
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder
from rlx.schedulers.protocol import gives_ray

if TYPE_CHECKING:
    from rlx.model import InstallationQuestion
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

__all__ = ["check", "look", "plan", "settings"]
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_STARTS_RAY = "ray_kwargs.ray_init."
# The weight hook needs these, also in a run without noise.
_WITH_WEIGHT_HOOK = ("rlx_aqn_hook.py", "rlx_aqn_settings.py")


@dataclass(frozen=True, slots=True)
class VerlScript:
    """The parts of launch.sh. Paths are paths on the host and may start with `~/`.

    `post`: after a training that ended with 0 its last checkpoint is evaluated. `joins`: the Ray that the job is in.
    """

    title: str
    device: str
    python: str
    program: Sequence[str]
    arguments: Sequence[str]
    workdir: str | None
    model: str
    data_files: Sequence[str]
    env: Mapping[str, str]
    path_prefix: Sequence[str]
    setup: Sequence[str] = ()
    nodes: int = 1
    joins: bool = False
    post: bool = False
    track: Sequence[tuple[str, Quoted | None]] = ()


def plan(resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
    """Plan the launch of one arm with one seed. Raises UsageError for what cannot be written down at all."""
    recipe, rendering = resolved.recipe, rendering_of(resolved, found)
    overrides = chosen(rendering)
    if gives_ray(site.batch):
        # What starts a Ray is refused by a driver that joins one.
        overrides = tuple(override for override in overrides if not override.key.startswith(_STARTS_RAY))
    settings = settings_of(overrides)
    promised = expectations(rendering, settings)
    arguments = tuple(override.argument() for override in overrides)
    script = _script(rendering, site, arguments, promised)
    launch = Launch(
        version=rendering.version,
        command=(script.python, "-u", *script.program, *script.arguments),
        env=script.env,
        script=render(script),
        files=tuple(_files(rendering, site, run_length(rendering, settings), promised)),
        promised=promised,
        devices=1 if recipe.layout.device == "cpu" else recipe.layout.devices_per_node,
    )
    return launch_plan(resolved, site, launch)


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """Return the key table's defaults with the command line over them. Raises UsageError if there is no table."""
    rendering = rendering_of(resolved, found)
    written: dict[str, object] = {}
    sources: dict[str, str] = {}
    removed: set[str] = set()
    for override in chosen(rendering):
        if override.prefix == "~":
            removed.add(override.key)
            continue
        for key, value in override.leaves():
            written[key], sources[key] = value, override.source
    return EffectiveSettings(rendering.version, rendering.table.defaults, written, sources, frozenset(removed))


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for the files of its configuration, which are read without importing verl."""
    backend = resolved.recipe.backend
    return installation_question(resolved.recipe, site, "verl", "trainer/config", program_of(backend, backend.version))


def render(script: VerlScript) -> str:
    """Fill in the template of launch.sh."""
    return render_template("verl.sh.j2", script)


def interpreter_arguments(entrypoint: str) -> tuple[str, ...]:
    """Name for Python what to run: a module, or a file of the working directory or anywhere on the host."""
    if entrypoint.endswith(".py"):
        return (entrypoint,)
    if not _MODULE.fullmatch(entrypoint):
        raise UsageError(
            f"backend.entrypoint: {entrypoint!r} is neither a module nor a Python file",
            "write a module such as verl.trainer.main_ppo, or a path that ends in .py",
        )
    return ("-m", entrypoint)


def _script(rendering: VerlRendering, site: Site, arguments: tuple[str, ...], promised: Expectations) -> VerlScript:
    recipe, name = rendering.recipe, rendering.config_name
    hooked, recorded = _is_hooked(recipe, promised), promised.weights is not None
    return VerlScript(
        title=f"{recipe.name}, arm {rendering.resolved.arm}, seed {recipe.seed}",
        device=recipe.layout.device,
        python=recipe.backend.python,
        program=interpreter_arguments(program_of(recipe.backend, rendering.version)),
        arguments=(f"--config-name={name}", *arguments) if name else arguments,
        workdir=recipe.backend.workdir,
        model=recipe.model.path,
        data_files=(recipe.data.train, recipe.data.val, *([recipe.eval.post.rows] if recipe.eval.post else ())),
        env=environment(recipe, site.env, hooked=hooked, recorded=recorded),
        path_prefix=site.path_prefix,
        setup=site.setup,
        nodes=1 if gives_ray(site.batch) else recipe.layout.nodes,
        joins=gives_ray(site.batch),
        post=recipe.eval.post is not None,
        track=track_variables(rendering.resolved),
    )


def _is_hooked(recipe: Recipe, promised: Expectations) -> bool:
    """Tell whether the payload's noise, or its watch, goes into verl's own rollout; rlx's own calls it by itself."""
    return recipe.rollout.engine == "vllm" and (promised.watch is not None or _brings_noise(recipe))


def _brings_noise(recipe: Recipe) -> bool:
    return recipe.aqn is not None and recipe.aqn.provider == "payload"


def _files(rendering: VerlRendering, site: Site, length: Length, promised: Expectations) -> Iterator[PlannedFile]:
    recipe = rendering.recipe
    programs = tuple(_programs(recipe, promised))
    yield from programs
    if gives_ray(site.batch):
        yield program(JOB_ENVIRONMENT)
    elif recipe.layout.nodes > 1:
        yield from ray_settings(rendering).files()
    if settings := _noise_settings(rendering, length, promised):
        yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", settings)
    yield from post_files(recipe, merge_arguments(rendering))
    names = {PurePosixPath(file.path).name for file in programs}
    yield from reward_files(recipe, {*names, "aqn.json", *POST_NAMES})


def _programs(recipe: Recipe, promised: Expectations) -> Iterator[PlannedFile]:
    """Yield the payload's modules, each once."""
    folder = payload_folder("verl")
    noisy = promised.watch is not None or _brings_noise(recipe)
    files = [*modules("provenance")]
    if noisy or gives_seeds(recipe) or guards_trackers(recipe):
        files += modules(NOISE)
    if _is_hooked(recipe, promised):
        files += modules(NOISE_HOOK, folder)
    if gives_seeds(recipe):
        files += modules(SEEDS, folder)
    if guards_trackers(recipe):
        files += modules(TRACK_GUARD, folder)
    if recipe.layout.device == "cpu":
        files += modules(CPU_PLUGIN, folder)
        if recipe.rollout.engine == "vllm":
            files += modules(VLLM_CPU_PLUGIN, folder)
    if promised.weights is not None:
        files += (*weight_files(), *modules(WEIGHT_HOOK, folder), *map(program, _WITH_WEIGHT_HOOK))
    yield from {file.path: file for file in files}.values()


def _noise_settings(rendering: VerlRendering, length: Length, promised: Expectations) -> str:
    recipe, watched = rendering.recipe, rendering.resolved.watched
    if length.total is None:
        return ""
    if promised.watch is not None and watched is not None:
        return watch_settings(recipe, watched, length.total)
    if recipe.aqn is None or not _brings_noise(recipe):
        return ""
    return payload_settings(recipe, recipe.aqn, length.total, length.epoch)


def ray_settings(rendering: VerlRendering) -> RaySettings:
    """Describe the Ray of several nodes, with the devices in CUDA_VISIBLE_DEVICES or ASCEND_RT_VISIBLE_DEVICES."""
    layout, on_cpu = rendering.recipe.layout, rendering.recipe.layout.device == "cpu"
    device = "NPU" if layout.device == "npu" else "GPU"
    return RaySettings(
        offers=cpu_resources(layout.devices_per_node) if on_cpu else {},
        each_node={device: layout.devices_per_node},
        all_nodes={device: layout.nodes * layout.devices_per_node},
        waiting="that verl asks for",
        fix="hosts with as many devices as layout.devices_per_node, each visible in its container",
        object_store_memory=OBJECT_STORE_BYTES if on_cpu else None,
    )
