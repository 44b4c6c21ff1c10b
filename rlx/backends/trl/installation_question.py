"""The question which TRL a run would import on its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.installation_question import installation_question

if TYPE_CHECKING:
    from rlx.model import InstallationQuestion, Site
    from rlx.recipe import ResolvedRecipe

_PACKAGE = "trl"
_FOLDER = "trainer"


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for its trainers, which are read and not run."""
    return installation_question(resolved.recipe, site, _PACKAGE, _FOLDER, _PACKAGE)
