"""Choose what may be deleted of runs: by age, number or name, and never of one that goes on."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.runs import Index, RunRef, Snapshot
    from rlx.runs.pruning import CheckpointSize, PruneAnswer


class What(StrEnum):
    """What can be deleted. mirrors: copies on this machine. runs: run directories. checkpoints: folders in those."""

    MIRRORS = "mirrors"
    RUNS = "runs"
    CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Item:
    """Something to delete. `names`: which folders, of checkpoints. `note`: what a person should know of it."""

    what: What
    run_id: str
    host: str
    bytes: int
    names: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that fits what was asked for and stays, and why."""

    what: What
    run_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The runs that are meant, as they were `seen`.

    `keep`: the newest launches of each recipe that stay, or the newest checkpoints of each run. `ids`: the runs that
    were named by their whole ids, which is how to ask for what otherwise stays. `everything`: no run and no host was
    named.
    """

    index: Index
    refs: tuple[RunRef, ...]
    seen: Mapping[str, Snapshot]
    older_than_s: float | None
    keep: int | None
    ids: frozenset[str]
    everything: bool

    def candidates(self, what: What) -> tuple[list[RunRef], list[Kept]]:
        """The runs that fit, without and with a reason why nothing of them may go now."""
        newest, skewed = self._newest_launches() if what is not What.CHECKPOINTS else set(), self.skewed
        fit = [ref for ref in self.refs if ref.launch_id not in newest and ref.host not in skewed and self._is_old(ref)]
        return self.split(what, fit, {ref.run_id: _why_not(self.seen[ref.run_id]) for ref in fit}, asked=())

    def split(
        self, what: What, refs: Iterable[RunRef], reasons: Mapping[str, str], asked: Collection[str] | None = None
    ) -> tuple[list[RunRef], list[Kept]]:
        """Part those that nothing speaks against, or that were asked for by their ids, from the others."""
        asked, free, kept = self.ids if asked is None else asked, [], []
        for ref in refs:
            if (why := reasons.get(ref.run_id)) and ref.head_id not in asked:
                kept.append(Kept(what, ref.run_id, why))
            else:
                free.append(ref)
        return free, kept

    def _newest_launches(self) -> set[str]:
        launches: dict[str, dict[str, None]] = {}
        removed = self.index.tombstones()
        for ref in sorted(self.refs, key=lambda ref: -ref.created):
            if ref.run_id not in removed:
                launches.setdefault(ref.name, {})[ref.launch_id] = None
        return {launch for found in launches.values() for launch in list(found)[: self.keep or 0]}

    def _is_old(self, ref: RunRef) -> bool:
        if self.older_than_s is None:
            return True
        seen = self.seen[ref.run_id].observation
        # Each by one clock: since the end and the last line by the host's, since the launch by this machine's.
        ages = (seen.seconds_since_end, seen.seconds_since_log, time.time() - ref.created)
        return min(age for age in ages if age is not None) >= self.older_than_s

    @property
    def skewed(self) -> dict[str, str]:
        """By host, how far its clock is off, where that keeps its runs: a clock that was set tells no ages."""
        if self.older_than_s is None:
            return {}
        seen = ((ref.host, self.seen[ref.run_id].observation) for ref in self.refs)
        return {host: found.clock.skew for host, found in seen if found.clock and found.clock.skew}

    def registered(self, refs: Sequence[RunRef]) -> dict[str, str]:
        """Those of these runs that belong to a registered experiment, with the words that keep them."""
        removed = self.index.tombstones()
        manifests = ((ref, self.seen[ref.run_id].manifest) for ref in refs if ref.run_id in self.seen)
        named = {ref.run_id for ref, manifest in manifests if manifest and manifest.plan.registration}
        named |= {ref.run_id for ref in refs if ref.head_id in removed and removed[ref.head_id].experiment}
        return dict.fromkeys(named, REGISTERED)


BY_ID = "only its id, typed in full, deletes it"
REGISTERED = f"evidence of a registered experiment: {BY_ID}"


def _why_not(sight: Snapshot) -> str:
    from rlx.model import RunState

    if sight.state is RunState.UNREACHABLE:
        return sight.observation.detail or "its host does not answer"
    return "" if sight.state.is_terminal else f"it is {sight.state.value}"


def could_go_on(sight: Snapshot) -> bool:
    """Tell whether it ended before its time, so that it may be begun again from a checkpoint."""
    from rlx.model import RunState

    return sight.state in (RunState.FAILED, RunState.STOPPED, RunState.LOST)


def checkpoints_to_delete(found: PruneAnswer, run_id: str, keep: int | None) -> list[CheckpointSize]:
    """All but the newest `keep` whole ones, by default the last; with 0, which has to be asked for, none stays."""
    own = sorted((each for each in found.checkpoints if each.run_id == run_id), key=lambda each: each.step)
    last = found.latest.get(run_id)
    whole = [each for each in own if last is None or each.step <= last]
    stay = whole[max(0, len(whole) - (1 if keep is None else keep)) :]
    return [each for each in own if each not in stay]
