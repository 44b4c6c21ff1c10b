"""The registration of an experiment: what is asked, of which arms, and what will count, before the first step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from rlx.plan.jsonable import to_jsonable

LAST, AREA, MEAN_OF_LAST = "last", "auc", "mean_of_last"
"""Of which validations the primary value is made: the one at the last step, all of them, or several at the end."""
BLOCK = "block"
"""The pairing where runs of one seed are pairs."""
# Written by the launch: when and by whom is no part of what is asked.
_OF_THE_LAUNCH = ("registered", "by")


@dataclass(frozen=True, slots=True)
class RegisteredArm:
    """`treatment`: the dotted keys it changes. `recipe`, `evaluation`: sha256 of what it runs, and is graded by."""

    name: str
    treatment: tuple[str, ...]
    recipe: str
    evaluation: str


@dataclass(frozen=True, slots=True)
class Registration:
    """One question about the arms of a recipe, and the one way in which it will be answered.

    `metric`, and each of `also`, is judged at `at` (LAST, AREA or MEAN_OF_LAST, with `validations` of them); `margin`
    is in points for shares, else in units of the metric, None for a test of superiority. `seeds` and `spare_seeds` are
    those of each arm. `control` is empty where the recipe names none. `registered` (ISO, UTC) and `by` (user@machine)
    are empty before the launch.
    """

    name: str
    question: str
    metric: str
    at: str
    validations: int
    test: str
    margin: float | None
    seeds: tuple[int, ...]
    spare_seeds: tuple[int, ...]
    several: str
    pairing: str
    secondary: tuple[str, ...]
    control: str
    arms: tuple[RegisteredArm, ...]
    registered: str = ""
    by: str = ""
    also: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Sha256 of all but when and by whom: equal for two launches of one experiment, on whatever hosts and seeds.

        A field that a later version adds stands in it only where it differs from its default.
        """
        known = [each for each in fields(self) if each.name not in _OF_THE_LAUNCH]
        document = {each.name: value for each in known if (value := getattr(self, each.name)) != each.default}
        return hashlib.sha256(json.dumps(to_jsonable(document), sort_keys=True).encode()).hexdigest()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that is judged."""
        return self.metric, *self.also

    @property
    def treatments(self) -> tuple[str, ...]:
        """The names of the arms that are held against the control."""
        return tuple(arm.name for arm in self.arms if arm.name != self.control)

    @property
    def is_paired(self) -> bool:
        """Tell whether runs of one seed are pairs."""
        return self.pairing == BLOCK

    @property
    def slots(self) -> Iterator[tuple[int, str]]:
        """Seed and arm of every registered run, in the order in which they are launched."""
        return ((seed, arm) for seed in self.seeds for arm in self.block(seed, [arm.name for arm in self.arms]))

    def block(self, seed: int, arms: Sequence[str]) -> tuple[str, ...]:
        """These arms in the order in which they run with that seed.

        The order is random, so that what drifts with time falls on no arm in particular, and fixed by the digest, so
        that nobody chose it and a launch that is typed again has the same.
        """
        digest = self.digest
        return tuple(sorted(arms, key=lambda arm: hashlib.sha256(f"{digest} {seed} {arm}".encode()).hexdigest()))

    @property
    def short(self) -> str:
        """The beginning of the digest, enough for a person to tell experiments apart."""
        return self.digest[:12]
