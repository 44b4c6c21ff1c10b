"""The answer to the registered question of an experiment as values: from all of its registered runs, or from none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlx.compare.left_out import LeftOut
from rlx.compare.registered_answer import Answer
from rlx.model import Finding, Registration
from rlx.model.verdict_rules import RULES


@dataclass(frozen=True, slots=True)
class RegisteredRun:
    """A run that was registered. `values`: its primary value by metric, in the metric's unit; empty where it lacks one.

    `run_id` is empty where nothing stands for it; `why` says why what does is not its first launch, "" where it is.
    `lacks`: why it has no value that counts, "" where it has. `is_open`: what it lacks may still come. `is_unverified`:
    its value counts, and has to be told with that word.
    """

    arm: str
    seed: int
    run_id: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    lacks: str = ""
    is_open: bool = False
    is_unverified: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class RegisteredAnswer:
    """The answer of one metric for one treatment. `is_share`: its values are shares, so that differences are points.

    `factors`: what its arm differs in from the control by declaration.
    """

    metric: str
    treatment: str
    is_share: bool
    answer: Answer
    factors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredResult:
    """A registered question with what its runs answer. Once a run is in, nobody chooses whether it counts.

    `runs`: every registered run, by seed in the order of their launch. `objection`: why the arms cannot be compared, ""
    where they can. `answers`: one for each metric and treatment, in the order of the registration, metric by metric;
    none before all runs are in, nor where one of them has no value that counts, or there is an objection.
    `exploratory`: then the answers from the runs that have values. `left_out`: the runs of the experiment that are none
    of the registered ones. `rules`: the version of the rules by which the runs were judged. `notes`: what is to be read
    beside the answer, such as runs that are not here.
    """

    registration: Registration
    runs: tuple[RegisteredRun, ...]
    answers: tuple[RegisteredAnswer, ...] = ()
    exploratory: tuple[RegisteredAnswer, ...] = ()
    objection: str = ""
    left_out: tuple[LeftOut, ...] = ()
    rules: int = RULES
    notes: tuple[Finding, ...] = ()

    @property
    def is_open(self) -> bool:
        """Tell whether a registered run may still come in: until then no p-value and no interval is shown."""
        return any(run.is_open for run in self.runs)

    @property
    def lacking(self) -> tuple[RegisteredRun, ...]:
        """The registered runs without a value that counts, those that may still get one included."""
        return tuple(run for run in self.runs if run.lacks)

    @property
    def withheld(self) -> str:
        """Why no test of these runs is shown yet; "" where tests may be shown."""
        if not self.is_open:
            return ""
        there = sum(1 for run in self.runs if not run.lacks)
        return (
            f"{there} of {len(self.runs)} runs registered as experiment {self.registration.short} are in, "
            "and who tests before all are may stop at a lucky moment"
        )
