"""The question which MindSpeed-RL a run would import on its host, asked from where launch.sh would start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.plan import InstallationQuestion, Site
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

_PACKAGE = "mindspeed_rl"
_FOLDER = "config_cls"


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """The same place, environment and interpreter as the run's; its configuration classes are read, not run."""
    from rlx.backends.mindspeed_rl.planner import entrypoint_of, question_script

    backend = resolved.recipe.backend
    ask = (payload_folder() / "config_tree.py").read_text(encoding="utf-8")
    entrypoint = entrypoint_of(resolved.recipe)
    return InstallationQuestion(
        script=question_script(resolved, site, ask, (_PACKAGE, _FOLDER, entrypoint, resolved.recipe.model.path)),
        package=_PACKAGE,
        entrypoint=entrypoint,
        python=backend.python,
        folder=backend.workdir,
    )
