"""Fill in the template of MindSpeed-RL's launch.sh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.data import packed_files
from rlx.backends.mindspeed_rl.sections.base import LOAD
from rlx.backends.shared.overrides import Override
from rlx.backends.shared.ray_settings import RaySettings
from rlx.backends.shared.shell import render_template

if TYPE_CHECKING:
    from rlx.backends.shared.effective import EffectiveSettings
    from rlx.model import Site
    from rlx.recipe.schema import Recipe

CONFIG_NAME = "mindspeed_rl"
# Besides the NPUs' own: the reward worker and the advantages each take CPUs for a local task, DAPO's filter as well.
_LOCAL_TASKS = {"dapo": 3}
_LEAST_LOCAL_TASKS = 2
_INTEGRATED = "rl_config.integrated_mode_config"
# Interfaces and addresses are one node's own.
_OF_ONE_NODE = ("_IFNAME", "_IF_IP")


@dataclass(frozen=True, slots=True)
class Script:
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
    ) -> Script:
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


def render(script: Script) -> str:
    """The text of launch.sh."""
    return render_template("mindspeed_rl.sh.j2", script)
