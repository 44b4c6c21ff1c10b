"""Define a run as a tracker shows it, in plain values that can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class MetricPoint(NamedTuple):
    """What a run logged at one step. `time` is in seconds since 1970; a value may be NaN or infinite."""

    step: int
    time: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run for a tracker. `name` has the verdict unless it is valid. `tags`: its origin and verdict.

    `config` is the recipe, `notes` the verdict in a sentence. `points`: by ascending step.
    """

    name: str
    project: str
    tags: Mapping[str, str]
    config: Mapping[str, Any]
    notes: str
    points: Sequence[MetricPoint]

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
        return cls(**{**order, "points": [MetricPoint(*point) for point in order["points"]]})


def flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its dotted name, for trackers without sections."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
