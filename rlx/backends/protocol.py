"""The Protocol that every back-end's module `backend` keeps: a recipe goes in, findings and a LaunchPlan come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from rlx.backends.registry import part

if TYPE_CHECKING:
    from rlx.backends.shared.rendering import EffectiveSettings
    from rlx.model import Finding, Installation, InstallationQuestion, LaunchPlan, Site
    from rlx.recipe import ResolvedRecipe


class BackendProtocol(Protocol):
    """A module with four pure functions: no clock, no randomness, no look at a host.

    `found` is what a look at the host told of the back-end that is there; None if nobody looked.
    """

    def check(self, resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
        """Find what is wrong with the recipe for this back-end, errors included."""

    def settings(self, resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
        """Derive what the back-end will really be configured with. Raises UsageError where nobody can tell."""

    def look(self, resolved: ResolvedRecipe, site: Site) -> InstallationQuestion | None:
        """What to ask the host for `found`; None for a back-end that may differ in nothing."""

    def plan(self, resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
        """The launch, without findings. Raises UsageError for what cannot be written down at all."""


def load_backend(kind: str) -> BackendProtocol:
    """The module `backend` of that kind. Raises UsageError for any other."""
    return cast("BackendProtocol", part(kind, "backend"))
