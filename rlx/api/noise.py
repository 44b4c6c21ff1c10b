"""Compute the noise of a recipe before anything runs: its schedule, and what rounding leaves of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.recipes import Recipe
    from rlx.model import NoiseSchedule, SigmaSteps
    from rlx.model.rounding import Survival, Weights
    from rlx.recipe import ResolvedRecipe

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class NoisyArm:
    """`dtype`: that of the weights that generate; `weights`: those that take the noise, by layer type."""

    name: str
    dtype: str
    noise: NoiseSchedule
    weights: Mapping[str, Weights]

    @property
    def noisy_steps(self) -> int:
        return sum(sigma > 0 for sigma in self.noise.sigmas)

    def left(self, kind: str, dtype: str, span: SigmaSteps) -> Survival:
        from rlx.model.rounding import survival

        return survival(span.sigma, dtype, self.weights[kind])

    def lost(self, kind: str) -> list[SigmaSteps]:
        """The stretches of which rounding takes more than half."""
        noisy = (span for span in self.noise.spans if span.sigma)
        return [span for span in noisy if self.left(kind, self.dtype, span).std < _HALF * span.sigma]


def noise_schedule(
    recipe: Recipe, arms: Sequence[str] = (), *, sets: Sequence[str] = (), weights: Weights | None = None
) -> list[NoisyArm]:
    """Compute the noise of these arms, by default of all that have some.

    `.noise.sigmas` has one standard deviation a training step, in the unit of the weights, 0 where there is none.
    `weights` are a model's own norm weights as `norm_weights` reads them, instead of the typical value 1. Raises
    UsageError where no arm has noise, or the length of the run is not known.
    """
    from rlx.api.recipes import recipe_file

    file = recipe_file(recipe, sets)
    resolved = [file.resolve(name) for name in dict.fromkeys(arms or file.arms)]
    noisy = [_noisy_arm(one, weights) for one in resolved if one.recipe.aqn is not None]
    if not noisy:
        raise UsageError(
            f"{getattr(recipe, 'path', recipe)}: no noise in {', '.join(one.arm for one in resolved)}",
            "give an arm an aqn section",
        )
    return noisy


def _noisy_arm(resolved: ResolvedRecipe, norms: Weights | None) -> NoisyArm:
    from rlx.backends.protocol import load_backend
    from rlx.hosts import local_site
    from rlx.model.rounding import TYPICAL

    noise = load_backend(resolved.recipe.backend.kind).plan(resolved, local_site()).expectations.noise
    if noise is None:
        raise UsageError(f"arm {resolved.arm}: the length of the run is not known", "give data.train_rows")
    if not noise.sigmas:
        raise UsageError(
            f"arm {resolved.arm}: the run has no step that noise could be on", "rlx validate RECIPE says why"
        )
    weights: dict[str, Weights] = {kind: {TYPICAL[kind]: 1} for kind in noise.layer_types}
    if norms and "rmsnorm" in weights:
        weights["rmsnorm"] = norms
    return NoisyArm(resolved.arm, resolved.recipe.model.dtype, noise, weights)
