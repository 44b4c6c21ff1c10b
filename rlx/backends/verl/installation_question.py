"""The question which verl a run would import on its host, asked from where launch.sh would start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.plan import InstallationQuestion, Site
from rlx.resources import payload_folder

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe

_PACKAGE = "verl"
_FOLDER = "trainer/config"


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """The same place, environment and interpreter as the run's. Asks for nothing that takes verl to be imported.

    On the same way it brings the model's config.json.
    """
    from rlx.backends.verl.planner import ENTRYPOINT, question_script

    backend = resolved.recipe.backend
    entrypoint = backend.entrypoint or ENTRYPOINT
    ask = (payload_folder() / "config_tree.py").read_text(encoding="utf-8")
    return InstallationQuestion(
        script=question_script(resolved, site, ask, (_PACKAGE, _FOLDER, entrypoint, resolved.recipe.model.path)),
        package=_PACKAGE,
        entrypoint=entrypoint,
        python=backend.python,
        folder=backend.workdir,
    )
