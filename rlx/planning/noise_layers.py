"""Name the norm layers of a model, choose those that take noise as the payload will, and add them to a plan.

Names are those of Hugging Face's and vLLM's modules: transformers `models/{llama,qwen2,qwen3,qwen2_moe,qwen3_moe,
deepseek_v3}/modeling_*.py`, vLLM `model_executor/models/` of the same names. Which of them take noise follows
rlx/payload/rlx_aqn_layers.py; tests/planning/test_norm_layers.py compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.model import LaunchPlan, Link, NoiseExpectation
from rlx.planning.models.architectures import Architecture

if TYPE_CHECKING:
    from rlx.model import Installation
    from rlx.recipe import ResolvedRecipe
    from rlx.recipe.schema import Aqn

_MIXTURE_TARGET = "post_attention_layernorm"


def with_expected_layers(plan: LaunchPlan, resolved: ResolvedRecipe, found: Installation | None) -> LaunchPlan:
    """Add to the plan the layers that must take noise, or that a control arm watches, with the number of their weights.

    The plan stays as it is where no layers can be named: for an unknown model, for one with a vision tower, whose
    layers have other names, and for noise on linear layers. A fork reports only a count of layers, so only their
    number is checked against the run.
    """
    expected, aqn = plan.expectations, resolved.recipe.aqn or resolved.watched
    promise = expected.noise.promise if expected.noise else expected.watch
    of_fork = aqn is not None and aqn.provider == "builtin" and expected.noise is not None
    if aqn is None or promise is None or not (promise.expects(Link.REACHED) or of_fork):
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
        return None  # The back-end has already reported its settings as a finding.


def _with_layers(
    promise: NoiseExpectation, layers: Mapping[str, int], factors: Mapping[str, float], *, confirmed: bool
) -> NoiseExpectation:
    elements = sum(layers.values())
    square = sum(size * factor_of(factors, name) ** 2 for name, size in layers.items())
    factor = (square / elements) ** 0.5 if elements else None
    return replace(promise, layers=tuple(layers), elements=elements, factor=factor, confirmed=confirmed)


def norm_layers(shape: Architecture) -> dict[str, int]:
    """Return every RMSNorm of the model by its module name, with the number of its weights."""
    layers = {f"model.layers.{index}.{name}": size for index in range(shape.layers) for name, size in _block(shape)}
    return {**layers, "model.norm": shape.hidden}


def _block(shape: Architecture) -> Iterator[tuple[str, int]]:
    if shape.qk_norm:
        yield from (("self_attn.q_norm", shape.head_dim), ("self_attn.k_norm", shape.head_dim))
    if shape.latent:
        if shape.latent.q_rank is not None:
            yield "self_attn.q_a_layernorm", shape.latent.q_rank
        yield "self_attn.kv_a_layernorm", shape.latent.kv_rank
    yield from (("input_layernorm", shape.hidden), (_MIXTURE_TARGET, shape.hidden))


def noisy_layers(aqn: Aqn, shape: Architecture) -> dict[str, int]:
    """Return the norm layers that `aqn.targets` and `aqn.exclude` choose, with the number of their weights."""
    every = aqn.targets == "auto" and shape.experts is None
    patterns = (_MIXTURE_TARGET,) if aqn.targets == "auto" else aqn.targets
    return {
        name: size
        for name, size in norm_layers(shape).items()
        if (every or _has(name, patterns)) and not _has(name, aqn.exclude)
    }


def _has(name: str, patterns: tuple[str, ...]) -> bool:
    return any(pattern in name for pattern in patterns)


def factor_of(factors: Mapping[str, float], name: str) -> float:
    """Compute the factor on sigma of a layer: the product of all patterns that match its name, as in the payload."""
    factor = 1.0
    for pattern, own in factors.items():
        factor *= own if pattern in name else 1.0
    return factor
