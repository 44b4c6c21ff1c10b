"""The back-end that is really there, for planning: one look a host for all arms and seeds that would import the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.plan import FoundTree, Look, Site
    from rlx.recipe import ResolvedRecipe


class BackendTrees:
    """What each recipe would import on `site`. Remembers the answers; their files are kept in rlx's home."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._found: dict[Look, FoundTree] = {}

    def of(self, resolved: ResolvedRecipe) -> FoundTree:
        """Raises HostError if the host cannot be asked."""
        from rlx.backends import load_backend
        from rlx.cli.home import rlx_home
        from rlx.hosts import find_tree

        look = load_backend(resolved.recipe.backend.kind).look(resolved, self._site)
        if look not in self._found:
            self._found[look] = find_tree(self._site, look, rlx_home() / "trees")
        return self._found[look]
