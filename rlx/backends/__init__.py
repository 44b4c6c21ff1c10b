"""How a recipe is written for the program that trains: one sub-package per back-end, loaded by name on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.plan import Finding, LaunchPlan, Site
    from rlx.recipe import ResolvedRecipe

_BACKENDS = {"verl": "rlx.backends.verl"}


class Backend(Protocol):
    """A module with two pure functions: no clock, no randomness, no look at a host."""

    def check(self, resolved: ResolvedRecipe) -> tuple[Finding, ...]:
        """What is wrong with the recipe for this back-end, errors included."""

    def plan(self, resolved: ResolvedRecipe, site: Site) -> LaunchPlan:
        """The launch, findings included. Raises UsageError for what cannot be written down at all."""


def load_backend(kind: str) -> Backend:
    """The back-end of that name. Raises UsageError for any other."""
    if kind not in _BACKENDS:
        raise UsageError(f"backend.kind: rlx has no back-end {kind!r}", f"use one of {', '.join(_BACKENDS)}")
    return cast("Backend", import_module(_BACKENDS[kind]))
