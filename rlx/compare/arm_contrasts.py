"""Differences of arms from one control with their standard errors: separate, pooled, or within blocks.

Values are arrays whose last axis is the runs of an arm; leading axes, such as replications of a simulation, are kept.
The runs of a blocked design stand in the order of their blocks in every arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlx.compare.seed_test import mean_test
from rlx.compare.student import TTest, t_test


def separate(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Each treatment against the control by its own spread: Welch's t as `mean_test` has it."""
    return [mean_test(control, arm) for arm in treatments]


def separate_in_blocks(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Each treatment against the control by the differences within blocks: the paired t with blocks - 1 degrees of
    freedom. Raises ValueError where an arm has another number of runs."""
    import numpy as np

    blocks = _blocks(control, treatments)
    differences = [arm - control for arm in treatments]
    errors = [each.std(axis=-1, ddof=1) / np.sqrt(blocks) for each in differences]
    return [
        t_test(each.mean(axis=-1), error, np.full_like(error, blocks - 1.0))
        for each, error in zip(differences, errors, strict=True)
    ]


def pooled(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Each treatment against the control with one variance of all arms, as Dunnett's test has it.

    Source: Dunnett (1955), A multiple comparison procedure for comparing several treatments with a control, Journal of
    the American Statistical Association 50:1096-1121.
    """
    import numpy as np

    arms = [control, *treatments]
    df = sum(arm.shape[-1] - 1 for arm in arms)
    squares = sum(arm.var(axis=-1) * arm.shape[-1] for arm in arms)
    factors = [np.sqrt(1 / control.shape[-1] + 1 / arm.shape[-1]) for arm in treatments]
    return _of_one_variance(control, treatments, squares / df, df, factors)


def pooled_in_blocks(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Like `pooled`, with what the blocks share taken out: the residual of arms and blocks, (blocks - 1) (arms - 1)
    degrees of freedom. With one treatment it is the paired t. Raises ValueError where an arm has another number of
    runs."""
    import numpy as np

    blocks = _blocks(control, treatments)
    values = np.stack([control, *treatments], axis=-2)
    rest = values - values.mean(axis=-1, keepdims=True) - values.mean(axis=-2, keepdims=True)
    rest = rest + values.mean(axis=(-1, -2), keepdims=True)
    df = (blocks - 1) * len(treatments)
    factors = [np.sqrt(2 / blocks)] * len(treatments)
    return _of_one_variance(control, treatments, (rest**2).sum(axis=(-1, -2)) / df, df, factors)


def _of_one_variance(
    control: Any, treatments: Sequence[Any], variance: Any, df: int, factors: Sequence[float]
) -> list[TTest]:
    import numpy as np

    errors = [np.sqrt(variance) * factor for factor in factors]
    return [
        t_test(arm.mean(axis=-1) - control.mean(axis=-1), error, np.full_like(error, df))
        for arm, error in zip(treatments, errors, strict=True)
    ]


def _blocks(control: Any, treatments: Sequence[Any]) -> int:
    """The number of blocks, which every arm has a run of."""
    sizes = {arm.shape[-1] for arm in (control, *treatments)}
    if len(sizes) > 1:
        raise ValueError(f"blocks have each arm once, and the arms have {sorted(sizes)} runs")
    return int(control.shape[-1])
