"""Two checkpoints on the same items: the test of the paired differences. Scores and differences are fractions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairedItems:
    """Treatment minus control over `n` items that both answered; an item with several answers counts by their mean.

    `low` and `high` bound the 95 % interval. `better` and `worse` count the items on which the treatment scored
    higher and lower. `detectable` is the difference that these items show with 80 % power, `items_needed` how many
    items would show the observed difference so (None where there is no difference).
    """

    n: int
    control: float
    treatment: float
    difference: float
    low: float
    high: float
    better: int
    worse: int
    p_value: float
    detectable: float
    items_needed: int | None
    method: str
