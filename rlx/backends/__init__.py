"""How a recipe is written for the program that trains: one sub-package per back-end, loaded by name on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.backends.effective import EffectiveSettings
    from rlx.plan import Finding, FoundTree, LaunchPlan, Look, Site
    from rlx.recipe import ResolvedRecipe

_BACKENDS = {"verl": "rlx.backends.verl", "mindspeed-rl": "rlx.backends.mindspeed_rl"}


class Backend(Protocol):
    """A module with four pure functions: no clock, no randomness, no look at a host.

    `found` is what a look at the host told of the back-end that is there; None if nobody looked.
    """

    def check(self, resolved: ResolvedRecipe, found: FoundTree | None = None) -> tuple[Finding, ...]:
        """What is wrong with the recipe for this back-end, errors included."""

    def settings(self, resolved: ResolvedRecipe, found: FoundTree | None = None) -> EffectiveSettings:
        """What the back-end will really be configured with. Raises UsageError where nobody can tell."""

    def look(self, resolved: ResolvedRecipe, site: Site) -> Look:
        """What to ask the host for `found`."""

    def plan(self, resolved: ResolvedRecipe, site: Site, found: FoundTree | None = None) -> LaunchPlan:
        """The launch, without findings. Raises UsageError for what cannot be written down at all."""


def load_backend(kind: str) -> Backend:
    """The back-end of that name. Raises UsageError for any other."""
    if kind not in _BACKENDS:
        raise UsageError(f"backend.kind: rlx has no back-end {kind!r}", f"use one of {', '.join(_BACKENDS)}")
    return cast("Backend", import_module(_BACKENDS[kind]))
