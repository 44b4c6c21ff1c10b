"""The input of every check, and the protocol of checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property
from typing import NamedTuple, Protocol

from rlx.evidence.checks.gap_test import GapTest, gap_test
from rlx.evidence.checks.noise_by_step import Application, application
from rlx.evidence.grammars import by_kind
from rlx.evidence.modes import Mode
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.traces import UNKNOWN_SETUP, KeyTrace, Setup, TraceInput, read_traces
from rlx.evidence.verdict import CheckFinding
from rlx.model import Expectations, NoiseSchedule, RunState


class Basis(Flag):
    """The basis of a run's expectations.

    RECIPE: all of them are from a recipe. NOISE: only the noise was planned, without a recipe. LOG: nothing was
    planned, and rlx launched the run, or it has ended. OPEN_LOG: nothing was planned, and a run that was started
    elsewhere is in progress.
    """

    RECIPE = auto()
    NOISE = auto()
    LOG = auto()
    OPEN_LOG = auto()
    PLANNED = RECIPE | NOISE
    UNPLANNED = LOG | OPEN_LOG


class NoiseInput(NamedTuple):
    """The planned noise of a run, and what the run shows of it."""

    schedule: NoiseSchedule
    application: Application
    gap_test: GapTest


@dataclass(frozen=True)
class CheckInput:
    """A run as its checks see it.

    `control_gap`: the gap between rollout and actor of the control, by step; None without one. `control_removed`: the
    share of samples that the same correction removed from the control, by step; None without one. `setup`: what the run
    was set up with.
    """

    evidence: Evidence
    expectations: Expectations
    state: RunState
    basis: Basis = Basis.RECIPE
    control_gap: Mapping[int, float] | None = None
    control_removed: Mapping[int, float] | None = None
    setup: Setup = UNKNOWN_SETUP

    @cached_property
    def modes(self) -> frozenset[Mode]:
        """The modes of training that are known to be on."""
        grammar = by_kind().get(self.evidence.backend)
        found = set(grammar.modes(self.setup.configuration)) if grammar else set[Mode]()
        return frozenset(found | ({Mode.RESUMED} if self.evidence.restarts else set()))

    @cached_property
    def traces(self) -> tuple[KeyTrace, ...]:
        """How the run shows the settings of its recipe; none where no configuration is known."""
        grammar = by_kind().get(self.evidence.backend)
        if grammar is None or not self.setup.configuration:
            return ()
        return read_traces(TraceInput(self.evidence, self.expectations, self.setup, self.modes), grammar.traces)

    @property
    def has_recipe(self) -> bool:
        return self.basis is Basis.RECIPE

    @cached_property
    def noise(self) -> NoiseInput | None:
        """None for a run that was planned without noise."""
        schedule = self.expectations.noise
        if schedule is None:
            return None
        found = application(self.evidence, schedule)
        return NoiseInput(schedule, found, gap_test(self.evidence, found, self.control_gap, self.expectations.witness))


class Check(Protocol):
    """A function `check…` of a module in this package. It yields nothing for a run to which it does not apply."""

    def __call__(self, given: CheckInput, /) -> Iterable[CheckFinding]: ...
