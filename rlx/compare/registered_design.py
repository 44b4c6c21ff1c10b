"""The test of a registered question as it was fixed before the runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rlx.compare.error_rates import ALPHA
from rlx.model import Registration


class Claim(StrEnum):
    """The claim that a registered test is about."""

    SUPERIORITY = "superiority"
    NON_INFERIORITY = "non-inferiority"
    EQUIVALENCE = "equivalence"


class Correction(StrEnum):
    """The rule for several treatments against one control."""

    DUNNETT = "dunnett"
    HOLM = "holm"


@dataclass(frozen=True, slots=True)
class Design:
    """The registered test, at 5 %: two-sided for superiority, one-sided for a margin.

    `margin` in points, positive, for non-inferiority and equivalence. `blocked`: the runs of an arm stand in the order
    of their blocks, each of which has every arm once. `scale`: points in a unit of the values, 100 for shares. Raises
    ValueError for a margin that is missing, in vain, or not positive.
    """

    claim: Claim = Claim.SUPERIORITY
    margin: float | None = None
    several: Correction = Correction.DUNNETT
    blocked: bool = False
    scale: float = 100.0
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        needs = self.claim is not Claim.SUPERIORITY
        if needs != (self.margin is not None) or (self.margin is not None and not self.margin > 0):
            raise ValueError(f"{self.claim} {'needs a positive margin' if needs else 'has no margin'}")

    @property
    def level(self) -> float:
        """The coverage of the interval that matches the test: 95 %; or 90 %, whose ends are one-sided 95 % bounds."""
        return 1 - ALPHA if self.claim is Claim.SUPERIORITY else 1 - 2 * ALPHA

    def is_dunnett(self, treatments: int) -> bool:
        """Tell whether all arms share one variance; a single treatment has nothing to be corrected for."""
        return treatments > 1 and self.several is Correction.DUNNETT

    def words(self, treatments: int, df: float) -> str:
        """Name the test: `Welch's t test, 7.6 degrees of freedom`."""
        own = "paired t test over blocks" if self.blocked else "Welch's t test"
        of_all = f"Dunnett's test of {treatments} treatments, pooled variance{' within blocks' if self.blocked else ''}"
        name = of_all if self.is_dunnett(treatments) else own
        holm = f", Holm over {treatments} treatments" if treatments > 1 and not self.is_dunnett(treatments) else ""
        return f"{name}{holm}{self._margin_words()}, {df:.1f} degrees of freedom"

    def _margin_words(self) -> str:
        sides = {Claim.NON_INFERIORITY: "one-sided", Claim.EQUIVALENCE: "two one-sided tests (TOST)"}
        return f", {sides[self.claim]} against a margin of {self.margin:g} points" if self.claim in sides else ""


def registered_design(asked: Registration, is_share: bool) -> Design:
    """The test that a registration fixes. `is_share`: its metric is a share, and its margin in points of it."""
    return Design(
        claim=Claim(asked.test),
        margin=asked.margin,
        several=Correction(asked.several),
        blocked=asked.is_paired,
        scale=100.0 if is_share else 1.0,
    )
