"""Say what every statistic of a comparison must tell: each is one file with its own words, and a row in `inference`."""

from __future__ import annotations

from typing import Protocol

from rlx.compare.item_counts import ItemCount


class Statistic(Protocol):
    """Treatment minus control at one step, as a frozen dataclass: its fields are shown as they are with --json.

    `low` and `high` bound the 95 % interval. `detectable` is the difference that this sample shows with 80 % power.
    """

    @property
    def difference(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def p_value(self) -> float: ...

    @property
    def detectable(self) -> float: ...

    @property
    def is_of_arms(self) -> bool:
        """Tell whether it is about the treatment, by all runs of both arms; else about two checkpoints."""

    @property
    def is_by_item(self) -> bool:
        """Tell whether it holds the answers to each item against each other."""

    @property
    def unit_of_sample(self) -> str:
        """`items`, of which n are in the sample; or `runs`."""

    def sample_words(self, seeds: str) -> str:
        """Write what follows a p-value, `n = 1319`. `seeds`: the runs of both arms in words."""

    def counted_words(self, items: ItemCount) -> str:
        """Write what follows the interval: what it was counted with, and how."""

    def needed_words(self) -> str:
        """Say how large a sample would show the observed difference, `5200 items`; "" where none would."""


class OfItems:
    """Say what every test of two checkpoints says: it is about n items, and never about the treatment."""

    __slots__ = ()

    n: int
    items_needed: int | None

    @property
    def is_of_arms(self) -> bool:
        return False

    @property
    def unit_of_sample(self) -> str:
        return "items"

    def sample_words(self, seeds: str) -> str:
        return f"n = {self.n}"

    def needed_words(self) -> str:
        return f"{self.items_needed} items" if self.items_needed else ""
