"""The back-end MindSpeed-RL: a recipe becomes the YAML of one of its trainers, and a Ray for that run alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.checks import check, rendering_of
from rlx.backends.mindspeed_rl.data import packed_files
from rlx.backends.mindspeed_rl.expectations import expectations, noise_files
from rlx.backends.mindspeed_rl.yaml_sections import LOAD, MindSpeedRlRendering, document, settings_of
from rlx.backends.shared.assembly import Launch, launch_plan
from rlx.backends.shared.installation_question import installation_question
from rlx.backends.shared.overrides import Override
from rlx.backends.shared.payload_files import RaySettings, modules, program
from rlx.backends.shared.post import POST_NAMES, post_files, reward_files
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.shared.shell import render_template
from rlx.errors import UsageError
from rlx.model import Installation, LaunchPlan, PlannedFile, Site
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.model import InstallationQuestion
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

__all__ = ["check", "look", "plan", "settings"]
_MOST_NPUS = 1024
_TRAINERS = {"grpo": "cli/train_grpo.py", "dapo": "cli/train_dapo.py", "ppo": "cli/train_ppo.py"}
_PAYLOAD = ("provenance.py", "provenance_weights.py", "mindspeed_rl_env.py")
# What examples/grpo/*.sh export; the recipe's `env` and the host's come over these.
_ENVIRONMENT = {"TASK_QUEUE_ENABLE": "2", "HYDRA_FULL_ERROR": "1", "MALLOC_MMAP_THRESHOLD_": "512768"}
CONFIG_NAME = "mindspeed_rl"
# Besides the NPUs' own: the reward worker and the advantages each take CPUs for a local task, DAPO's filter as well.
_LOCAL_TASKS = {"dapo": 3}
_LEAST_LOCAL_TASKS = 2
_INTEGRATED = "rl_config.integrated_mode_config"
# Interfaces and addresses are one node's own.
_OF_ONE_NODE = ("_IFNAME", "_IF_IP")


@dataclass(frozen=True, slots=True)
class MindSpeedRlScript:
    """Paths are paths on the host and may start with `~/`. `npus` is how many each of the `nodes` has, `ray`
    what its Ray must have.

    `env` is exported, `worker_env` is what the workers get over MindSpeed-RL's own file of variables.
    `post`: after a training that ended with 0 its last checkpoint is evaluated. `weights`: what tells the reference
    model its own where a further attempt goes on from a checkpoint; else it would load that.
    """

    title: str
    device: str
    python: str
    entrypoint: str
    arguments: Sequence[str]
    workdir: str
    model: str
    data_files: Sequence[str]
    env: Mapping[str, str]
    worker_env: Mapping[str, str]
    path_prefix: Sequence[str]
    setup: Sequence[str]
    nodes: int
    npus: int
    ray: RaySettings
    post: bool = False
    weights: str = ""

    @classmethod
    def of(
        cls, recipe: Recipe, site: Site, settings: EffectiveSettings, arm: str, entrypoint: str, env: Mapping[str, str]
    ) -> MindSpeedRlScript:
        return cls(
            title=f"{recipe.name}, arm {arm}, seed {recipe.seed}",
            device=recipe.layout.device,
            python=recipe.backend.python,
            entrypoint=entrypoint,
            arguments=("--config-name", CONFIG_NAME),
            workdir=recipe.backend.workdir or "",
            model=recipe.model.path,
            data_files=(*packed_files(recipe.data.train), *([recipe.eval.post.rows] if recipe.eval.post else ())),
            env={**env, **site.env, **recipe.env},
            worker_env={**_for_all_nodes(site.env, recipe.layout.nodes), **recipe.env},
            path_prefix=site.path_prefix,
            setup=site.setup,
            nodes=recipe.layout.nodes,
            npus=recipe.layout.devices_per_node,
            ray=_ray_settings(recipe, settings),
            post=recipe.eval.post is not None,
            weights=_reference_weights(recipe),
        )

    @property
    def devices(self) -> str:
        """The NPUs that its workers will take, as RLX_DEVICES names them."""
        return ",".join(map(str, range(self.npus)))

    @property
    def config_file(self) -> str:
        """Name the file relative to the run directory; its folder is put on Hydra's search path."""
        return f"config/{CONFIG_NAME}.yaml"


def plan(resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
    """Plan the launch of one arm with one seed. Raises UsageError for what cannot be written down at all."""
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


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """Return the classes' defaults with the YAML over them. Raises UsageError if there is no table."""
    return settings_of(rendering_of(resolved, found))


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for its configuration classes, which are read and not run. Raises UsageError without a checkout."""

    recipe = resolved.recipe
    return installation_question(
        recipe, site, "mindspeed_rl", "config_cls", entrypoint_of(recipe), (checkout_of(recipe),)
    )


def entrypoint_of(recipe: Recipe) -> str:
    """Name the program that trains. Raises UsageError for an algorithm without a trainer."""
    if recipe.backend.entrypoint:
        return recipe.backend.entrypoint
    if trainer := _TRAINERS.get(recipe.algorithm.kind):
        return trainer
    raise UsageError(
        f"algorithm.kind: MindSpeed-RL has no trainer for {recipe.algorithm.kind}", f"use one of {', '.join(_TRAINERS)}"
    )


def checkout_of(recipe: Recipe) -> str:
    """Name the folder of the checkout. Raises UsageError for a recipe that names none."""
    if recipe.backend.workdir is None:
        raise UsageError(
            "backend.workdir: MindSpeed-RL starts from the root of its checkout",
            "write the folder on the host that holds cli/ and configs/",
        )
    return recipe.backend.workdir


def _script(resolved: ResolvedRecipe, site: Site, settings: EffectiveSettings) -> MindSpeedRlScript:
    recipe = resolved.recipe
    checkout_of(recipe)
    if recipe.layout.devices_per_node > _MOST_NPUS:
        raise UsageError(f"layout.devices_per_node: no machine has {recipe.layout.devices_per_node} NPUs")
    return MindSpeedRlScript.of(recipe, site, settings, resolved.arm, entrypoint_of(recipe), _ENVIRONMENT)


def _files(rendering: MindSpeedRlRendering, script: MindSpeedRlScript) -> Iterator[PlannedFile]:
    import yaml

    config = yaml.safe_dump(document(rendering), sort_keys=False, allow_unicode=True)
    yield PlannedFile(script.config_file, config)
    yield PlannedFile(f"{PAYLOAD_DIR}/mindspeed_rl_env.json", json.dumps(dict(script.worker_env), indent=1) + "\n")
    yield from script.ray.files()
    yield from modules("provenance")
    yield program("mindspeed_rl_env.py", payload_folder("mindspeed_rl"))
    yield from post_files(rendering.recipe, ())
    yield from reward_files(rendering.recipe, {*_PAYLOAD, "mindspeed_rl_env.json", *POST_NAMES})


def _reference_weights(recipe: Recipe) -> str:
    """Name the weights that the run began with (workers/integrated_worker.py, initialize)."""
    weights = recipe.overrides.get(LOAD)
    if not isinstance(weights, str) or _INTEGRATED in recipe.overrides:
        return ""
    value = {"ref_model_load_path": weights}
    return Override(_INTEGRATED, value, f"overrides.{LOAD}", "++", verbatim=True).argument()


def _for_all_nodes(env: Mapping[str, str], nodes: int) -> dict[str, str]:
    """Choose those of the head's variables that its file of variables may carry to the other nodes as well."""
    return {name: value for name, value in env.items() if nodes == 1 or not name.endswith(_OF_ONE_NODE)}


def _ray_settings(recipe: Recipe, settings: EffectiveSettings) -> RaySettings:
    layout = recipe.layout
    npus, all_npus = layout.devices_per_node, layout.nodes * layout.devices_per_node
    each = _count(settings, "rl_config.num_cpus_for_placement_group")
    return RaySettings(
        offers={"NPU": npus},
        each_node={"NPU": npus, "CPU": int(npus * each)},
        all_nodes={"NPU": all_npus, "CPU": needed_cpus(settings, all_npus, recipe.algorithm.kind)},
        waiting="that MindSpeed-RL waits for without a word",
        fix="a machine or container with more; fewer CPUs for each NPU by "
        "overrides: {rl_config.num_cpus_for_placement_group: N}",
    )


def needed_cpus(settings: EffectiveSettings, npus: int, kind: str) -> int:
    """CPUs without which a placement group of MindSpeed-RL waits for ever.

    Source: workers/scheduler/launcher.py, a bundle of 1 NPU and num_cpus_for_placement_group CPUs for each NPU; cli/
    and trainer/ for the local tasks. The driver's own CPU is free while it waits.
    """
    each, local = (_count(settings, f"rl_config.num_cpus_for_{what}") for what in ("placement_group", "local_task"))
    return int(npus * each + local * _LOCAL_TASKS.get(kind, _LEAST_LOCAL_TASKS))


def _count(settings: EffectiveSettings, key: str) -> float:
    value = settings.get(key)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def render(script: MindSpeedRlScript) -> str:
    """Fill in the template of launch.sh."""
    return render_template("mindspeed_rl.sh.j2", script)
