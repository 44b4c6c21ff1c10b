"""Count the steps of a run. MindSpeed-RL counts iterations only, and repeats the data as often as they need.

Source: `_build_index_mappings` of datasets/utils.py, which extends the index until it has train_iters × batch rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe


def iterations(recipe: Recipe) -> int | None:
    """`train.steps`, else whole batches in all epochs; None where the recipe says neither."""
    train, rows = recipe.train, recipe.data.train_rows
    if train.steps is not None or rows is None:
        return train.steps
    return rows * train.epochs // train.batch_size


def epoch_iterations(recipe: Recipe) -> int | None:
    """Count whole batches in the rows; None where the recipe does not say how many rows there are."""
    rows = recipe.data.train_rows
    return None if rows is None else rows // recipe.train.batch_size


def checkpoint_interval(recipe: Recipe) -> int | None:
    """Choose the interval of saving. Never is no number: then the end of the run, where GRPO and DAPO save anyway."""
    return recipe.train.save_every or iterations(recipe)
