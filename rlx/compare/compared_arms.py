"""The runs of one arm, one a seed, and what they are together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rlx.compare.align import Point
from rlx.compare.config_diff import ConfigDifference
from rlx.compare.item_counts import ItemCount
from rlx.compare.pace import HostLoad
from rlx.evidence import Verdict, VerdictStatus
from rlx.model import RunState


class _Seeded(Protocol):
    @property
    def seed(self) -> int: ...


Seeded = TypeVar("Seeded", bound=_Seeded)


def same_seed(control: Sequence[Seeded], treatment: Sequence[Seeded]) -> tuple[Seeded, Seeded]:
    """One run of each arm: the first two with a seed in common, else the first of each. Their values have no say."""
    same = [(left, right) for left in control for right in treatment if left.seed == right.seed]
    return same[0] if same else (control[0], treatment[0])


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run with its validation series. `label` is the shortest name that no other compared run has.

    `core_metric` is the validation metric that its own log shows, which need not be the one compared.
    `seconds_per_step` and `tokens_per_second` are medians over its steps, `training_seconds` is all steps together;
    None where it did not log them (see `pace`). `started`: when it was, in seconds since 1970 by its host, and `load`
    what that was busy with then; None where it did not record them. `disputed`: step -> the two values that its records
    have there.
    """

    run_id: str
    label: str
    name: str
    arm: str
    seed: int
    state: RunState
    verdict: Verdict
    core_metric: str | None
    items: ItemCount
    series: Mapping[int, float]
    peak: Point | None
    final: Point | None
    seconds_per_step: float | None = None
    tokens_per_second: float | None = None
    training_seconds: float | None = None
    started: float | None = None
    load: HostLoad | None = None
    disputed: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.state.is_terminal

    @property
    def exclusion(self) -> str:
        """The word that excludes its numbers; "" where they may stand. What a run that goes on lacks may still come."""
        return self.verdict.exclusion(ended=self.finished)

    @property
    def struck(self) -> bool:
        """Tell whether its numbers are excluded."""
        return bool(self.exclusion)

    @property
    def word(self) -> str:
        """The word that must be read before a number of this run; "" where nothing qualifies it."""
        if not self.finished and not self.struck:
            return self.state.value
        return "" if self.verdict.status is VerdictStatus.VALID else self.verdict.word


@dataclass(frozen=True, slots=True)
class ComparedArm:
    """One or more runs that differ in nothing but their seed; never empty.

    `series` is the mean over its runs at the steps where all of them have a value, `spread` their standard deviation
    there (n - 1), empty for a single run. `peak` and `final` are those of `series`. `differences`: what its runs differ
    in besides their seed, each held against the first; it should be empty. `repeats`: why its runs are repeats of one
    seed; "" where each shows a seed of its own.
    """

    label: str
    arm: str
    runs: tuple[ComparedRun, ...]
    series: Mapping[int, float]
    spread: Mapping[int, float]
    peak: Point | None
    final: Point | None
    differences: tuple[ConfigDifference, ...] = ()
    repeats: str = ""

    @property
    def finished(self) -> bool:
        return all(run.finished for run in self.runs)

    @property
    def exclusion(self) -> str:
        """The word of its first excluded run, which excludes the arm: a seed left out afterwards is a seed chosen."""
        return next((run.exclusion for run in self.runs if run.struck), "")

    @property
    def struck(self) -> bool:
        """Tell whether its numbers are excluded."""
        return bool(self.exclusion)

    @property
    def word(self) -> str:
        """The word that excludes the arm, else the first that qualifies any of its runs; "" where none does."""
        return self.exclusion or next((run.word for run in self.runs if run.word), "")

    @property
    def has_seeds(self) -> bool:
        """Tell whether it has several runs that are samples of different seeds."""
        return len(self.runs) > 1 and not self.repeats

    @property
    def repeats_words(self) -> str:
        return f"the runs of {self.label} are repeats of one seed: {self.repeats}"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)
