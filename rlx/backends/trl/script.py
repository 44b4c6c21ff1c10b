"""Fill in the template of TRL's launch.sh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.backends.shared import vllm_cpu
from rlx.backends.shared.shell import Quoted, render_template
from rlx.backends.shared.tracking import track_variables

if TYPE_CHECKING:
    from rlx.model import Site
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Recipe

# Nothing is looked up in a network, and one thread a process: results then depend on no machine's number of cores.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
}


@dataclass(frozen=True, slots=True)
class Script:
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
    def of(cls, resolved: ResolvedRecipe, site: Site) -> Script:
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


def _of_vllm(recipe: Recipe) -> dict[str, str]:
    """In one process, where the noise and TRL's own weight sync find its model."""
    if recipe.rollout.engine != "vllm":
        return {}
    return {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        **(vllm_cpu.ENVIRONMENT if recipe.layout.device == "cpu" else {}),
    }


def render(script: Script) -> str:
    """The text of launch.sh."""
    return render_template("trl.sh.j2", script)
