"""The Protocol of every back-end's module `backend`: a recipe goes in, findings and a LaunchPlan come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from rlx.backends.registry import part

if TYPE_CHECKING:
    from rlx.backends.shared.rendering import EffectiveSettings
    from rlx.model import Finding, Installation, InstallationQuestion, LaunchPlan, Site
    from rlx.recipe import ResolvedRecipe


class BackendProtocol(Protocol):
    """A module with four pure functions: no clock, no randomness, no access to a host.

    `found` is the installation that was found on the host; None if the host was not asked.
    """

    def check(self, resolved: ResolvedRecipe, found: Installation | None = None) -> tuple[Finding, ...]:
        """Find what is wrong with the recipe for this back-end, errors included."""

    def settings(self, resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
        """Derive the effective settings of the back-end. Raises UsageError where they cannot be known."""

    def look(self, resolved: ResolvedRecipe, site: Site) -> InstallationQuestion | None:
        """Return what to ask the host for `found`; None for a back-end whose installations do not differ."""

    def plan(self, resolved: ResolvedRecipe, site: Site, found: Installation | None = None) -> LaunchPlan:
        """Plan the launch, without findings. Raises UsageError for what cannot be written down at all."""


def load_backend(kind: str) -> BackendProtocol:
    """Load the module `backend` of that kind. Raises UsageError for any other."""
    return cast("BackendProtocol", part(kind, "backend"))
