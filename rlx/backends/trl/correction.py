"""TRL's correction of samples whose probabilities differ between rollout and actor, which it has with vLLM only.

Source: trl 1.16.0, trainer/grpo_trainer.py: the loss of each sample is multiplied by p(actor)/p(rollout), of single
tokens or of the whole sequence; `truncate` cuts larger ratios. It is on by default, as sequence_mask up to 3.0, and
then reweighs the samples that the noise has changed: rlx switches it off where the recipe asks for none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.shared.overrides import Override
from rlx.model import Correction

if TYPE_CHECKING:
    from rlx.backends.shared.effective import EffectiveSettings
    from rlx.recipe.schema import Recipe

_KEY = "vllm_importance_sampling"
_IS_ON, _MODE, _MOST = f"{_KEY}_correction", f"{_KEY}_mode", f"{_KEY}_clip_max"
KEYS = (_IS_ON, _MODE, _MOST, f"{_KEY}_clip_min", f"{_KEY}_cap")
_PLACE = "algorithm.correction"


def correction_arguments(recipe: Recipe) -> Iterator[Override]:
    """Importance weights that are cut, or none. Anything else is refused by rule (RLX174)."""
    correction = recipe.algorithm.correction
    weights = correction.weights if correction else None
    yield Override(_IS_ON, weights is not None, _PLACE)
    if correction and weights:
        yield Override(_MODE, f"{weights}_truncate", f"{_PLACE}.weights")
        yield Override(_MOST, correction.weights_threshold, f"{_PLACE}.weights_threshold")


def correction_of(settings: EffectiveSettings) -> Correction | None:
    """Promise what TRL applies; None where it trains on all samples alike."""
    if settings.get("use_vllm") is not True or settings.get(_IS_ON) is not True:
        return None
    kind = str(settings.get(_MODE)).partition("_")[0]
    return Correction(weights=f"{kind} {settings.get(_MOST)}")
