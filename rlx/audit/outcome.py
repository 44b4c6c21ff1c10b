"""Read what noise code did to a model, as its process wrote it down: checked, since that ran code of others."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from rlx.errors import RlxError

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call on clean weights: modules, elements and classes that changed, by how much, in the unit of the weights.

    `std`: standard deviation of the changed elements' differences; `moved`: the largest change of a log probability
    among those asked, -1 where the answers were not finite.
    """

    step: int
    sigma: float
    layers: int
    elements: int
    std: float
    moved: float
    classes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one engine's model showed. `sigmas`: by step, from 0 to the last. `norms`: norm layers by class.

    `constant_calls`: (step, total, sigma) for calls of the checkout in which both are literals, with a list of one
    sigma. `told`: a call whose class names were made to mean the class that is there, if none had matched.
    """

    engine: str
    version: str
    torch: str
    model: str
    norms: dict[str, int]
    norm_elements: int
    sigmas: list[float]
    calls: list[HookCall]
    constant_calls: list[tuple[int, int, float]]
    told: HookCall | None

    @property
    def noisy(self) -> list[HookCall]:
        return [call for call in self.calls if call.sigma]

    @property
    def norm_layers(self) -> int:
        return sum(self.norms.values())

    @property
    def reached(self) -> int:
        """The most layers that any call with a sigma changed."""
        return max((call.layers for call in self.noisy), default=0)


def parse_outcome(engine: str, text: str) -> Outcome:
    """Read the answer of the process. Raises RlxError where it is not what our program writes."""
    try:
        said = json.loads(text)
        return Outcome(
            engine=engine,
            version=_text(said["version"]),
            torch=_text(said["torch"]),
            model=_text(said["model"]),
            norms=_counts(said["norms"]),
            norm_elements=int(said["norm_elements"]),
            sigmas=[_number(each) for each in said["sigmas"][:_MOST]],
            calls=[_call(each) for each in said["calls"][:_MOST]],
            constant_calls=[
                (int(each["step"]), int(each["total"]), _number(each["sigma"])) for each in said["constant_calls"]
            ],
            told=_call(said["told"]) if said["told"] else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RlxError(
            f"{engine}: the process left an answer that rlx cannot read", "the code may have written it"
        ) from error


def _call(said: dict[str, Any]) -> HookCall:
    return HookCall(
        step=int(said["step"]),
        sigma=_number(said["sigma"]),
        layers=int(said["layers"]),
        elements=int(said["elements"]),
        std=_number(said["std"]),
        moved=_number(said["moved"]),
        classes=_counts(said["classes"]),
    )


def _counts(said: dict[str, Any]) -> dict[str, int]:
    return {_text(name): int(number) for name, number in list(said.items())[:_MOST]}


def _number(said: Any) -> float:
    number = float(said)
    if not math.isfinite(number):
        raise ValueError(said)
    return number


def _text(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError(said)
    return said[:200]
