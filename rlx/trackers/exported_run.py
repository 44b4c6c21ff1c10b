"""A run as a tracker is to show it: plain values, which also travel to a process apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Point(NamedTuple):
    """What a run logged at one step. `time` is in seconds since 1970; a value may be NaN or infinite."""

    step: int
    time: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """`name` says the verdict where it is not valid. `tags` tell where it comes from and what may be believed of it.

    `config` is the recipe, `notes` the verdict in a sentence. `points`: steps ascending.
    """

    name: str
    project: str
    tags: Mapping[str, str]
    config: Mapping[str, Any]
    notes: str
    points: Sequence[Point]

    @property
    def labels(self) -> list[str]:
        """The tags for trackers whose tags are single words."""
        return [f"{name}:{value}" for name, value in self.tags.items()]

    @property
    def settings(self) -> dict[str, Any]:
        """Tags and recipe in one, for trackers that filter and group by it."""
        return {"rlx": dict(self.tags), "recipe": dict(self.config)}

    def as_order(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_order(cls, order: Mapping[str, Any]) -> ExportedRun:
        return cls(**{**order, "points": [Point(*point) for point in order["points"]]})


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its dotted name, for trackers that take no sections."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
