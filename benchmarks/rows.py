"""What the benchmarks have in common: measuring in turns, and rows of a table with budgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

Way = Callable[[], object]

HEAD = "| what | rlx | against | result | budget |\n|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Row:
    """A result in `unit`, and the largest that keeps the promise; None promises nothing."""

    what: str
    measured: str
    against: str
    result: float
    unit: str
    budget: float | None = None

    @property
    def kept(self) -> bool:
        return self.budget is None or self.result <= self.budget

    def __str__(self) -> str:
        limit = "–" if self.budget is None else f"≤ {self.budget:.3g} {self.unit}{'' if self.kept else ', **broken**'}"
        return f"| {self.what} | {self.measured} | {self.against} | {self.result:.3g} {self.unit} | {limit} |"


def ratio(what: str, seconds: float, against: str, reference: float, budget: float | None = None) -> Row:
    """As a multiple of the time that something else took."""
    return Row(what, f"{seconds:.2f} s", f"{reference:.2f} s {against}", seconds / reference, "×", budget)


def excess(what: str, seconds: float, against: str, reference: float, budget: float | None = None) -> Row:
    """As seconds on top of what something else took."""
    return Row(what, f"{seconds:.2f} s", f"{reference:.2f} s {against}", seconds - reference, "s more", budget)


def memory(what: str, megabytes: float, budget: float | None = None) -> Row:
    return Row(f"memory of {what}", f"{megabytes:.0f} MB", "–", megabytes, "MB", budget)


def in_turns(ways: Mapping[str, Way], rounds: int, before: Mapping[str, Way] | None = None) -> dict[str, float]:
    """Median wall seconds of each; the first round only warms up. `before`: what comes first, without being timed."""
    samples = [{name: _timed(way, (before or {}).get(name)) for name, way in ways.items()} for _ in range(rounds + 1)]
    return {name: median(sample[name] for sample in samples[1:]) for name in ways}


def _timed(way: Way, before: Way | None) -> float:
    if before is not None:
        before()
    began = time.monotonic()
    way()
    return time.monotonic() - began
