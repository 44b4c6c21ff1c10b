"""A resolved recipe as Hydra overrides, one module a topic. Order is the order on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.overrides import (
    algorithm,
    ascend,
    correction,
    cpu,
    critic,
    data,
    evaluation,
    layout,
    model,
    noise,
    records,
    rollout,
    train,
)
from rlx.backends.verl.overrides.base import Rendering

_TOPICS: tuple[Callable[[Rendering], Iterator[Override]], ...] = (
    layout.overrides,
    model.overrides,
    data.overrides,
    algorithm.overrides,
    correction.overrides,
    critic.overrides,
    train.overrides,
    rollout.overrides,
    evaluation.overrides,
    records.overrides,
    cpu.overrides,
    ascend.overrides,
    noise.overrides,
)


def rendered(rendering: Rendering) -> tuple[Override, ...]:
    """Render what rlx itself writes, without the recipe's own `overrides`."""
    return tuple(override for topic in _TOPICS for override in topic(rendering))


def chosen(rendering: Rendering) -> tuple[Override, ...]:
    """Render what rlx writes, with the recipe's `overrides` in place of their own and behind it."""
    own = own_overrides(rendering)
    taken = {override.key for override in own}
    return tuple(override for override in rendered(rendering) if override.key not in taken) + own


def own_overrides(rendering: Rendering) -> tuple[Override, ...]:
    """The recipe's `overrides`, in its order: keys with Hydra's prefixes (`+a.b`), values verbatim."""
    return tuple(Override.read(key, value) for key, value in rendering.recipe.overrides.items())


__all__ = ["Override", "Rendering", "chosen", "own_overrides", "rendered"]
