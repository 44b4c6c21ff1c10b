"""The back-end that is really there, for planning: one look for all arms and seeds that would import the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.target import Target
    from rlx.model import Installation, InstallationQuestion
    from rlx.recipe import ResolvedRecipe


class BackendTrees:
    """Remember what each recipe would import there. The files of the answers are kept in rlx's home."""

    def __init__(self, target: Target, must_answer: bool) -> None:
        self._target = target
        self._site = target.site
        self._must_answer = must_answer
        self._found: dict[InstallationQuestion, Installation] = {}

    def look(self, resolved: ResolvedRecipe) -> InstallationQuestion | None:
        """Write the question; None for a back-end of which nothing needs to be known."""
        from rlx.backends.protocol import load_backend

        look = load_backend(resolved.recipe.backend.kind).look(resolved, self._site)
        return replace(look, may_start=self._target.may_start(look.python)) if look else None

    def find(self, look: InstallationQuestion | None) -> Installation | None:
        """Raises HostError for a host that must answer and does not; otherwise the answer says why there is none."""
        if look is None:
            return None
        if look not in self._found:
            self._found[look] = self._find(look)
        return self._found[look]

    def _find(self, look: InstallationQuestion) -> Installation:
        from rlx.api.home import rlx_home
        from rlx.hosts import find_installation
        from rlx.hosts.host_errors import HostError
        from rlx.model import Installation

        try:
            return find_installation(self._site, look, rlx_home() / "trees")
        except HostError as error:
            if self._must_answer:
                raise
            return Installation(self._site.host, problem=error.message)


def latest_tree() -> Installation | None:
    """A guess what the next look at a host will find: what the last one did."""
    from rlx.api.home import rlx_home
    from rlx.hosts.installations import latest_tree
    from rlx.model import Installation

    folder = latest_tree(rlx_home() / "trees")
    return Installation("the last host", folder=folder) if folder else None
