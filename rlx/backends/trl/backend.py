"""The back-end TRL: a recipe becomes the arguments of its GRPOTrainer, which one program of the payload starts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from rlx.backends.shared import vllm_cpu
from rlx.backends.shared.assembly import Launch, launch_plan
from rlx.backends.shared.installation_question import installation_question
from rlx.backends.shared.payload_files import modules, program, weight_files
from rlx.backends.shared.post import POST_NAMES, post_files, reward_files, training_outputs
from rlx.backends.shared.shell import Quoted, render_template
from rlx.backends.shared.tracking import track_variables
from rlx.backends.trl.arguments import Rendering, chosen, engine_arguments, settings_of
from rlx.backends.trl.checks import check, rendering_of
from rlx.backends.trl.expectations import expectations, noise_files
from rlx.errors import UsageError
from rlx.model import Expectations, Installation, LaunchPlan, PlannedFile, Site
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.backends.shared.rendering import EffectiveSettings
    from rlx.model import InstallationQuestion
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

__all__ = ["check", "look", "plan", "settings"]
PROGRAM = "rlx_trl_train.py"
_PAYLOAD = "rlx_trl"  # the payload's modules begin with it
_ORDER, _ROWS = "trl.json", "data_rows.py"
# Nothing is looked up in a network, and one thread a process: results then depend on no machine's number of cores.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
}


@dataclass(frozen=True, slots=True)
class TrlScript:
    """The parts of launch.sh. Paths are paths on the host and may start with `~/`.

    `post`: after a training that ended with 0 its last checkpoint is evaluated.
    """

    title: str
    device: str
    python: str
    workdir: str | None
    model: str
    data_files: Sequence[str]
    env: Mapping[str, str]
    path_prefix: Sequence[str]
    setup: Sequence[str]
    nodes: int
    post: bool = False
    track: Sequence[tuple[str, Quoted | None]] = ()

    @classmethod
    def of(cls, resolved: ResolvedRecipe, site: Site) -> TrlScript:
        recipe, arm = resolved.recipe, resolved.arm
        return cls(
            title=f"{recipe.name}, arm {arm}, seed {recipe.seed}",
            device=recipe.layout.device,
            python=recipe.backend.python,
            workdir=recipe.backend.workdir,
            model=recipe.model.path,
            data_files=(recipe.data.train, recipe.data.val, *([recipe.eval.post.rows] if recipe.eval.post else ())),
            env={**site.env, **_ENVIRONMENT, **_of_vllm(recipe), **recipe.env},
            path_prefix=site.path_prefix,
            setup=site.setup,
            nodes=recipe.layout.nodes,
            post=recipe.eval.post is not None,
            track=track_variables(resolved),
        )


def plan(resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
    """Plan the launch of one arm with one seed. Raises UsageError for what cannot be written down at all."""
    rendering = rendering_of(resolved)
    promised = expectations(rendering, settings_of(rendering))
    script = TrlScript.of(resolved, site)
    launch = Launch(
        version=rendering.version,
        command=(script.python, "-u", f"{PAYLOAD_DIR}/{PROGRAM}"),
        env=script.env,
        script=render(script),
        files=tuple(_files(rendering, promised)),
        promised=promised,
        devices=1,
    )
    return launch_plan(resolved, site, launch)


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """GRPOConfig's defaults with the recipe's arguments over them. Raises UsageError where there is no table."""
    return settings_of(rendering_of(resolved))


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for its trainers, which are read and not run."""
    return installation_question(resolved.recipe, site, "trl", "trainer", "trl")


def _files(rendering: Rendering, promised: Expectations) -> Iterator[PlannedFile]:
    recipe = rendering.recipe
    noise = tuple(noise_files(rendering, promised.total_steps or 0))
    carried = {file.path for file in noise}
    weights = weight_files() if promised.weights is not None else ()
    own = (
        *modules("provenance"),
        *modules(_PAYLOAD, payload_folder("trl")),
        *noise,
        *(file for file in weights if file.path not in carried),
    )
    yield from own
    if recipe.eval.post is None:  # else it comes along with that
        yield program(_ROWS)
    order = json.dumps(_order(recipe, rendering.resolved.arm), indent=1, ensure_ascii=False)
    yield PlannedFile(f"{PAYLOAD_DIR}/{_ORDER}", order + "\n")
    yield from post_files(recipe, ())
    names = {PurePosixPath(file.path).name for file in own}
    yield from reward_files(recipe, {*names, _ROWS, _ORDER, *POST_NAMES})


def _order(recipe: Recipe, arm: str) -> dict[str, Any]:
    """Read by payload/rlx_trl_train.py."""
    data = recipe.data
    return {
        "arguments": {argument.key: argument.value for argument in chosen(recipe)},
        "model": recipe.model.path,
        "dtype": recipe.model.dtype,
        **({"track": {"to": list(recipe.track.to), "name": f"{arm}-s{recipe.seed}"}} if recipe.track else {}),
        **({"vllm": engine_arguments(recipe)} if recipe.rollout.engine == "vllm" else {}),
        "data": {
            "train": data.train,
            "val": data.val,
            "prompt_key": data.prompt_key,
            "max_prompt_tokens": data.max_prompt_tokens,
        },
        "reward": _reward(recipe),
        "validation": {"samples": recipe.eval.n, "folder": training_outputs(recipe)},
        "log_prob_micro_batch_size": recipe.rollout.log_prob_micro_batch_size,
    }


def _reward(recipe: Recipe) -> dict[str, Any]:
    from rlx.recipe.schema import FunctionReward

    reward = recipe.reward
    if not isinstance(reward, FunctionReward):
        raise UsageError("reward: TRL has no rewards by name", "give reward: {path, function}")
    return {"file": Path(reward.path).name, "function": reward.function, "kwargs": reward.kwargs}


def _of_vllm(recipe: Recipe) -> dict[str, str]:
    """In one process, where the noise and TRL's own weight sync find its model."""
    if recipe.rollout.engine != "vllm":
        return {}
    return {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        **(vllm_cpu.ENVIRONMENT if recipe.layout.device == "cpu" else {}),
    }


def render(script: TrlScript) -> str:
    """Fill in the template of launch.sh."""
    return render_template("trl.sh.j2", script)
