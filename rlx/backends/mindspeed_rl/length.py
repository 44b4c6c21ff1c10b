"""How long a run is. MindSpeed-RL counts iterations only, and repeats the data as often as they need.

Source: `_build_index_mappings` of datasets/utils.py, which extends the index until it has train_iters × batch rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe


def iterations(recipe: Recipe) -> int:
    """`train.steps`, else whole batches in all epochs. Raises UsageError where the recipe says neither."""
    train, rows = recipe.train, recipe.data.train_rows
    if train.steps is not None:
        return train.steps
    if rows is None:
        raise UsageError(
            "train.steps: MindSpeed-RL must be told how many iterations it is to take",
            "write train.steps, or data.train_rows beside train.epochs",
        )
    if not (steps := rows * train.epochs // train.batch_size):
        raise UsageError(f"train.batch_size {train.batch_size}: {rows} rows do not fill one batch", "lower it")
    return steps


def checkpoint_interval(recipe: Recipe) -> int:
    """Never is no number there: then the end of the run, where GRPO and DAPO save anyway."""
    return recipe.train.save_every or iterations(recipe)
