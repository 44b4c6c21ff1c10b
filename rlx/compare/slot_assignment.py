"""Assign runs to registered slots by launch order and by how they ended, never by their values.

The first launch of a seed counts; what is launched again afterwards replaces no result and no failure. Only a run that
its machine ended gives up its place: to a spare seed, in their order, or to an earlier launch of the same seed again.
Launching more runs never replaces a run that holds its slot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain

from rlx.evidence import Verdict, VerdictStatus
from rlx.evidence.diagnosis import Hit, SignatureKind, causes_of_machine
from rlx.model import Registration, RunState

_AGAIN = "launched again: the first launch of a seed counts"
_NO_RECORD = "no end was recorded, and its log names no cause"


class RunOutcome(StrEnum):
    """The end of a run, as far as its place is concerned.

    result: it ended, and its result counts. open: it has not ended, or its end is not known. failed: it ended without a
    result that counts, by a cause of its own or an unknown one. machine: its machine ended it.
    """

    RESULT = "result"
    OPEN = "open"
    FAILED = "failed"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run of the experiment. `launched` in seconds since 1970; `cause`: why it ended so, with the id that says it."""

    run_id: str
    arm: str
    seed: int
    launched: float
    outcome: RunOutcome
    cause: str = ""


@dataclass(frozen=True, slots=True)
class RunSlot:
    """The slot of one registered run. `run` holds it, or None.

    `next_seed`: the seed with which one is to be launched for it, None where none is. `why`: why `run` or `next_seed`
    is not just the registered one's first launch, "" where it is.
    """

    arm: str
    seed: int
    run: EndedRun | None = None
    next_seed: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A run of the experiment that stands for no registered one, and why."""

    run: EndedRun
    why: str


@dataclass(frozen=True, slots=True)
class RunSlots:
    """`slots` in the order of their launch, `passed_over` by that, too."""

    slots: tuple[RunSlot, ...]
    passed_over: tuple[PassedOver, ...]

    @property
    def standing(self) -> Mapping[tuple[int, str], EndedRun]:
        """The run of each slot that has one, by registered seed and arm."""
        return {(slot.seed, slot.arm): slot.run for slot in self.slots if slot.run is not None}


def assign_slots(asked: Registration, runs: Sequence[EndedRun]) -> RunSlots:
    """Find the run that stands for each registered one, and say of all others why they do not.

    Runs that share a unit are replaced together: with pairing `block` the arms of a seed, else each arm by itself.
    """
    names = [arm.name for arm in asked.arms]
    launches: dict[tuple[int, str], list[EndedRun]] = {}
    for run in sorted(runs, key=lambda run: (run.launched, run.run_id)):
        launches.setdefault((run.seed, run.arm), []).append(run)
    units = [tuple(names)] if asked.is_paired else [(name,) for name in names]
    found = {arm: _Unit(asked, launches, arms) for arms in units for arm in arms}
    slots = tuple(found[arm].slot(seed, arm) for seed, arm in asked.slots)
    taken = {slot.run.run_id for slot in slots if slot.run is not None}
    others = [run for run in chain.from_iterable(launches.values()) if run.run_id not in taken]
    others.sort(key=lambda run: (run.launched, run.run_id))
    return RunSlots(slots, tuple(PassedOver(run, _why_not(asked, found.get(run.arm), run)) for run in others))


@dataclass
class _Unit:
    """Arms that give way together, with the spare seeds that have taken the place of registered ones."""

    asked: Registration
    launches: Mapping[tuple[int, str], Sequence[EndedRun]]
    arms: tuple[str, ...]
    spare_of: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # By position, so that a seed that is launched again hands its spare to no other.
        spares = (seed for seed in self.asked.spare_seeds if not self.lost(seed))
        for seed, spare in zip(filter(self.lost, self.asked.seeds), spares, strict=False):
            if not self._was_repeated(seed, self._begun(spare)):
                self.spare_of[seed] = spare

    def lost(self, seed: int) -> list[EndedRun]:
        """Return the first launches with that seed that their machine ended."""
        firsts = [runs[0] for arm in self.arms if (runs := self.launches.get((seed, arm)))]
        return [run for run in firsts if run.outcome is RunOutcome.MACHINE]

    def lasting(self, seed: int, arm: str) -> EndedRun | None:
        """Return the first launch that its machine did not end: it and the attempts before it are one run."""
        runs = self.launches.get((seed, arm), ())
        return next((run for run in runs if run.outcome is not RunOutcome.MACHINE), None)

    def comes_first(self, spare: int) -> int | None:
        """Return the earlier spare seed that is still to be launched; None where this one is next."""
        earlier = (seed for seed in self.spare_of.values() if seed < spare)
        return next((seed for seed in earlier if math.isinf(self._begun(seed))), None)

    def slot(self, seed: int, arm: str) -> RunSlot:
        """Return the run that holds this slot, or the seed that is to be launched for it."""
        spare = self.spare_of.get(seed)
        chosen = seed if spare is None else spare
        run, why = self.lasting(chosen, arm), self._reason(seed, arm)
        if run is not None and spare is not None and (first := self.comes_first(spare)) is not None:
            return RunSlot(arm, seed, why=f"{why}; spare seed {spare} waits for {first}, which comes before it")
        return RunSlot(arm, seed, run, chosen if run is None else None, why)

    def _reason(self, seed: int, arm: str) -> str:
        lost = self.lost(seed)
        if seed in self.spare_of:
            by_what = f"the machine ended {lost[0].run_id}{_because(lost[0])}"
            return f"spare seed {self.spare_of[seed]} in place of seed {seed}: {by_what}"
        own = next((run for run in lost if run.arm == arm), None)
        return f"seed {seed} again: the machine ended {own.run_id}{_because(own)}" if own else ""

    def _begun(self, seed: int) -> float:
        """When a run with that seed was launched first, infinite for never."""
        runs = chain.from_iterable(self.launches.get((seed, arm), ()) for arm in self.arms)
        return min((run.launched for run in runs), default=math.inf)

    def _was_repeated(self, seed: int, before: float) -> bool:
        """Tell whether all runs of that seed that were lost were launched again before the spare one."""
        repeated = [self.lasting(seed, run.arm) for run in self.lost(seed)]
        return all(run is not None and run.launched < before for run in repeated)


def _because(run: EndedRun) -> str:
    return f" ({run.cause})" if run.cause else ""


def _why_not(asked: Registration, unit: _Unit | None, run: EndedRun) -> str:
    """Say why a run stands for none that was registered."""
    if unit is None or run.seed not in (*asked.seeds, *asked.spare_seeds):
        return "added: the experiment registers no such run"
    if run.outcome is RunOutcome.MACHINE:
        return f"its machine ended it{_because(run)}"
    if run.seed in asked.seeds:
        spare = unit.spare_of.get(run.seed)
        return _AGAIN if spare is None else f"spare seed {spare} has the place of seed {run.seed}"
    if unit.lost(run.seed):
        return "a spare of which a run was ended by its machine is used up"
    if run.seed not in unit.spare_of.values():
        return "a spare: there is no place free for it"
    first = unit.comes_first(run.seed)
    return _AGAIN if first is None else f"spare seed {first} comes before it, and has not been launched"


def outcome_of(
    state: RunState, verdict: Verdict, cause: Hit | None, *, is_explained: bool = True
) -> tuple[RunOutcome, str]:
    """Return the outcome of a run, and why, in words with the id of the cause.

    `cause`: what its log says ended it, as `rlx diagnose` finds it, None where it names nothing; `is_explained` is
    False where the log could not be asked, and then nothing is decided. A run that was stopped, or that is invalid,
    failed.
    """
    if not state.is_terminal:
        return RunOutcome.OPEN, ""
    if verdict.status is VerdictStatus.INVALID or state is RunState.FINISHED:
        is_result = state is RunState.FINISHED and verdict.is_result(ended=True)
        return (RunOutcome.RESULT, "") if is_result else (RunOutcome.FAILED, verdict.sentence)
    if state is RunState.STOPPED:
        return RunOutcome.FAILED, "it was stopped"
    if not is_explained:
        return RunOutcome.OPEN, "its log cannot be read for the reason of its end"
    return _by_cause(state, cause if cause is not None and cause.kind is SignatureKind.CAUSE else None)


def _by_cause(state: RunState, cause: Hit | None) -> tuple[RunOutcome, str]:
    """Decide by the cause. A lost run without one counts as ended by its machine: a host that goes down loses the
    record of the end along.
    """
    if cause is not None:
        by = RunOutcome.MACHINE if cause.id in causes_of_machine() else RunOutcome.FAILED
        return by, f"{cause.id} {cause.name}"
    if state is RunState.LOST:
        return RunOutcome.MACHINE, _NO_RECORD
    return RunOutcome.FAILED, "its log names no cause"
