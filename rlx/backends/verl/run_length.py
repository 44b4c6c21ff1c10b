"""Count the steps of a run as its trainer does.

Sources: `fit` and `_create_dataloader` of verl 0.6.1 to 0.9.1, and recipe/dapo/dapo_ray_trainer.py. verl's own trainers
take a step for each batch, also 0.9.1 where it filters groups: it begins its data anew until the step is full. The DAPO
recipe's trainer counts its steps so, too, but may take several batches of the data for one, and ends with the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlx.backends.shared.assembly import MOST_STEPS
from rlx.backends.verl.overrides import Rendering
from rlx.backends.verl.trainers import is_dapo_recipe
from rlx.errors import UsageError
from rlx.model import BatchesAStep

Settings = Mapping[str, object]
_FILTER = "algorithm.filter_groups"


@dataclass(frozen=True, slots=True)
class Length:
    """Steps of the run. `total` is what verl announces, `by_data` where its epochs end; None: not known beforehand.

    Where a step may take several batches, `by_data` is the most that the data can give. `epoch` are the steps of one
    epoch.

    The data can end first: then verl stops without taking any step for its last one.
    """

    total: int | None
    by_data: int | None
    epoch: int | None = None

    @property
    def data_ends_first(self) -> bool:
        return self.total is not None and self.by_data is not None and self.by_data < self.total

    @property
    def last(self) -> int | None:
        return self.by_data if self.data_ends_first else self.total


def run_length(rendering: Rendering, settings: Settings) -> Length:
    """verl drops the last, incomplete batch of an epoch. Raises UsageError for a setting that is no count of steps."""
    totals = rendering.recipe.backend.totals
    length = Length(totals.steps, None) if totals else _counted(rendering, settings)
    if length.total is not None and length.total > MOST_STEPS:
        raise UsageError(
            f"the run would have {length.total:,} steps, and a plan lists each up to {MOST_STEPS:,}",
            "lower train.steps or train.epochs",
        )
    return length


def batches_a_step(rendering: Rendering, settings: Settings) -> BatchesAStep | None:
    """What the DAPO recipe's trainer logs of each step; None for trainers that take one batch, or log nothing of it."""
    if not is_dapo_recipe(rendering.recipe, rendering.version):
        return None
    if settings.get(f"{_FILTER}.enable") is not True:
        return BatchesAStep(1, 1)
    most = settings.get(f"{_FILTER}.max_num_gen_batches")
    least = -(-count(settings, "data.train_batch_size") // _generated(rendering, settings))
    return BatchesAStep(least, most if type(most) is int and most > 0 else None)


def _counted(rendering: Rendering, settings: Settings) -> Length:
    rows, epochs = _rows(rendering, settings), count(settings, "trainer.total_epochs")
    a_step = batches_a_step(rendering, settings) or BatchesAStep(1, 1)
    batches = None if rows is None else rows // _generated(rendering, settings)
    announced = None if batches is None else batches * epochs
    steps = settings.get("trainer.total_training_steps")
    total = announced if steps is None else count(settings, "trainer.total_training_steps")
    by_data = None if announced is None else announced // a_step.least
    return Length(total, by_data, batches if a_step.most == 1 else None)


def _generated(rendering: Rendering, settings: Settings) -> int:
    """Prompts of a batch of the data. The DAPO recipe's own default is a reference to the other size."""
    written = settings.get("data.gen_batch_size")
    if is_dapo_recipe(rendering.recipe, rendering.version) and type(written) is int and written > 0:
        return written
    return count(settings, "data.train_batch_size")


def _rows(rendering: Rendering, settings: Settings) -> int | None:
    rows, most = rendering.recipe.data.train_rows, settings.get("data.train_max_samples")
    return min(rows, most) if rows is not None and type(most) is int and most > 0 else rows


def count(settings: Settings, key: str) -> int:
    value = whole(settings, key)
    if value < 1:
        raise UsageError(f"overrides.{key}: must be at least 1, found {value}", "remove it, or write a larger number")
    return value


def whole(settings: Settings, key: str) -> int:
    value = settings.get(key)
    if type(value) is not int:
        from rlx.recipe.schema_errors import describe

        raise UsageError(
            f"overrides.{key}: rlx must know this number beforehand, found {describe(value)}", "write a whole number"
        )
    return value
