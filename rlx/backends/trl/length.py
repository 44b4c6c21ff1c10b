"""Count the steps of a run: one step is one generation and one update of the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.assembly import MOST_STEPS
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe


def epoch_steps(recipe: Recipe) -> int | None:
    """Count whole batches in the rows; None where the recipe does not say how many rows there are.

    Source: trl 1.16.0, trainer/utils.py, RepeatSampler drops the last, incomplete batch of an epoch.
    """
    rows = recipe.data.train_rows
    return None if rows is None else rows // recipe.train.batch_size


def steps(recipe: Recipe) -> int:
    """`train.steps`, else whole batches in all epochs; data is repeated for as many steps as asked.

    Raises UsageError where the recipe says neither, and for more steps than a plan lists.
    """
    in_epoch = epoch_steps(recipe)
    total = recipe.train.steps or (in_epoch and in_epoch * recipe.train.epochs)
    if not total:
        raise UsageError(
            "train.steps: TRL must be told how many steps it is to take",
            "write train.steps, or data.train_rows of at least train.batch_size",
        )
    if total > MOST_STEPS:
        raise UsageError(
            f"the run would have {total:,} steps, and a plan lists each up to {MOST_STEPS:,}",
            "lower train.steps or train.epochs",
        )
    return total
