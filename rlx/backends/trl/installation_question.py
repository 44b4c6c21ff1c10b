"""The question which TRL a run would import on its host, asked from where launch.sh would start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.plan import InstallationQuestion, Site
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

_PACKAGE = "trl"
_FOLDER = "trainer"


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """The same place, environment and interpreter as the run's; on the same way comes the model's config.json."""
    from rlx.backends.trl.planner import question_script

    backend = resolved.recipe.backend
    ask = (payload_folder() / "config_tree.py").read_text(encoding="utf-8")
    return InstallationQuestion(
        script=question_script(resolved, site, ask, (_PACKAGE, _FOLDER, _PACKAGE, resolved.recipe.model.path)),
        package=_PACKAGE,
        entrypoint=_PACKAGE,
        python=backend.python,
        folder=backend.workdir,
    )
