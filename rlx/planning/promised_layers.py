"""Complete what a plan promises of its noise by the layers that the model has, which only its architecture tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.model import LaunchPlan, Link, NoisePromise
from rlx.planning.models.norm_layers import factor_of, noisy_layers

if TYPE_CHECKING:
    from rlx.model import Installation
    from rlx.planning.models.architectures import Architecture
    from rlx.recipe import ResolvedRecipe


def with_promised_layers(plan: LaunchPlan, resolved: ResolvedRecipe, found: Installation | None) -> LaunchPlan:
    """Name the layers that must take noise, or be watched for it, and count their weights.

    Unchanged where no layers are promised: a model that is not known or has a vision tower, which names its layers
    otherwise, or noise on linear layers. A fork counts its layers, so that only their number is held against the run.
    """
    expected, aqn = plan.expectations, resolved.recipe.aqn or resolved.watched
    promise = expected.noise.promise if expected.noise else expected.watch
    of_fork = aqn is not None and aqn.provider == "builtin" and expected.noise is not None
    if aqn is None or promise is None or not (promise.promises(Link.REACHED) or of_fork):
        return plan
    if aqn.layer_types != ("rmsnorm",) or (shape := _shape(resolved, found)) is None or shape.vision:
        return plan
    if of_fork and expected.noise is not None:
        layers = noisy_layers(aqn, shape)
        promise = replace(promise, layers=tuple(layers), elements=sum(layers.values()), confirmed=shape.confirmed)
        return replace(plan, expectations=replace(expected, noise=replace(expected.noise, promise=promise)))
    promise = _with_layers(promise, noisy_layers(aqn, shape), aqn.multipliers, confirmed=shape.confirmed)
    if expected.noise is None:
        return replace(plan, expectations=replace(expected, watch=promise))
    return replace(plan, expectations=replace(expected, noise=replace(expected.noise, promise=promise)))


def _shape(resolved: ResolvedRecipe, found: Installation | None) -> Architecture | None:
    from rlx.planning.rules.facts import facts_of

    try:
        return facts_of(resolved, found).architecture
    except UsageError:
        return None  # what the back-end said of its settings is a finding already


def _with_layers(
    promise: NoisePromise, layers: Mapping[str, int], factors: Mapping[str, float], *, confirmed: bool
) -> NoisePromise:
    elements = sum(layers.values())
    square = sum(size * factor_of(factors, name) ** 2 for name, size in layers.items())
    factor = (square / elements) ** 0.5 if elements else None
    return replace(promise, layers=tuple(layers), elements=elements, factor=factor, confirmed=confirmed)
