"""Register an experiment before its first step: what is asked, of which arms, and what will count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from rlx.model.jsonable import to_jsonable

LAST, AREA, MEAN_OF_LAST = "last", "auc", "mean_of_last"
"""Of which validations the primary value is made: the one at the last step, all of them, or several at the end."""
SYSTEMS = "systems"
"""The kind of an experiment that compares whole systems and credits no setting."""
BLOCK = "block"
"""The pairing where runs of one seed are pairs."""
FORM = 2
"""The form of the digests that this version writes. Form 1, which had no number, is the digest of all values."""
# When and by whom is no part of what is asked, and neither is how the digest is made.
_NO_VALUES = ("registered", "by", "form", "written", "sealed")


@dataclass(frozen=True, slots=True)
class RegisteredArm:
    """`treatment`: the dotted keys it changes. `recipe`, `evaluation`: sha256 of what it runs, and is graded by.

    All three as form 1 has them, whatever the schema of recipes is by now.
    """

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

    `kind`: what is compared, "treatment" or SYSTEMS.

    `form`: how its digest is made. `written`: sha256 of all that the recipe says of it, as it is written there, without
    the defaults of this version. `sealed`: sha256 of the values when it was made. Both are empty in form 1.
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
    form: int = 1
    written: str = ""
    sealed: str = ""
    kind: str = "treatment"

    @property
    def digest(self) -> str:
        """The name of the experiment: equal for all of its launches, on whatever hosts and seeds.

        In form 2 that of what was written, so that new keys and new defaults of recipes do not change it. With values
        that are not those it was sealed with, it is another experiment.
        """
        if self.form == 1:
            return self.content
        return self.written if self.sealed == self.content else _sha256([self.written, self.content])

    @property
    def content(self) -> str:
        """Sha256 of all values, which is the digest of form 1.

        A field that a later version adds stands in it only where it differs from its default.
        """
        known = [each for each in fields(self) if each.name not in _NO_VALUES]
        return _sha256({each.name: value for each in known if (value := getattr(self, each.name)) != each.default})

    def is_same(self, other: Registration) -> bool:
        """Return whether both are one experiment, also where an earlier version registered one of them in form 1."""
        return self.is_called(other.digest) or other.is_called(self.digest)

    def is_called(self, digest: str) -> bool:
        """Return whether this is its digest in any form."""
        return digest in (self.digest, self.content)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that is judged."""
        return self.metric, *self.also

    @property
    def treatments(self) -> tuple[str, ...]:
        """The names of the arms that are compared with the control."""
        return tuple(arm.name for arm in self.arms if arm.name != self.control)

    @property
    def is_paired(self) -> bool:
        """Return whether runs of one seed are pairs."""
        return self.pairing == BLOCK

    @property
    def is_of_systems(self) -> bool:
        """Return whether whole systems are compared."""
        return self.kind == SYSTEMS

    @property
    def slots(self) -> Iterator[tuple[int, str]]:
        """Seed and arm of every registered run, in the order in which they are launched."""
        return ((seed, arm) for seed in self.seeds for arm in self.block(seed, [arm.name for arm in self.arms]))

    def block(self, seed: int, arms: Sequence[str]) -> tuple[str, ...]:
        """Return these arms in the order in which they run with that seed.

        The order is random, so that what drifts with time falls on no arm in particular, and fixed by the digest, so
        that no person chose it and a launch that is typed again has the same.
        """
        digest = self.digest
        return tuple(sorted(arms, key=lambda arm: hashlib.sha256(f"{digest} {seed} {arm}".encode()).hexdigest()))

    @property
    def short(self) -> str:
        """The beginning of the digest, enough for a person to tell experiments apart."""
        return self.digest[:12]


def _sha256(document: object) -> str:
    return hashlib.sha256(json.dumps(to_jsonable(document), sort_keys=True).encode()).hexdigest()
