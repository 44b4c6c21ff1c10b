"""The correction of samples whose probabilities differ between rollout and actor, by the keys of each version."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.key_names import (
    BYPASS,
    REJECTION,
    REJECTION_LOW,
    REJECTION_THRESHOLD,
    WEIGHTS,
    WEIGHTS_THRESHOLD,
)
from rlx.backends.verl.overrides.base import Rendering

_PLACE = "algorithm.correction"


def overrides(rendering: Rendering) -> Iterator[Override]:
    correction = rendering.recipe.algorithm.correction
    if correction is None:
        return
    yield Override(WEIGHTS, correction.weights, f"{_PLACE}.weights")
    if correction.weights is not None:
        yield Override(WEIGHTS_THRESHOLD, correction.weights_threshold, f"{_PLACE}.weights_threshold")
    yield Override(REJECTION, correction.rejection, f"{_PLACE}.rejection")
    if correction.rejection_threshold is not None:
        yield from _bounds(rendering, correction.rejection_threshold)
    yield Override(BYPASS, correction.bypass, f"{_PLACE}.bypass")


def _bounds(rendering: Rendering, threshold: float | str) -> Iterator[Override]:
    """Write both bounds in one text, as verl does since 0.7; verl 0.6 has a key for each and wants numbers."""
    source = f"{_PLACE}.rejection_threshold"
    low, _, high = str(threshold).rpartition("_")
    if REJECTION_LOW not in rendering.table or "," in high:
        yield Override(REJECTION_THRESHOLD, threshold, source)
        return
    yield Override(REJECTION_THRESHOLD, float(high), source)
    if low:
        yield Override(REJECTION_LOW, float(low), source)
