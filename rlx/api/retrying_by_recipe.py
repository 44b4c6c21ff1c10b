"""Begin further attempts where a recipe asks for it: `retry: {times: 2, on: [lost, RLX805], from_checkpoint: true}`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError
from rlx.model import RunState
from rlx.model.attempt_lineage import LOST

if TYPE_CHECKING:
    from rlx.api.telling import Tell
    from rlx.runs import Index
    from rlx.runs.status.snapshots import Snapshot

_ID = re.compile(r"\bRLX\d{3}\b")


@dataclass(frozen=True, slots=True)
class Policy:
    """How many further attempts a run may have, after what, and from where."""

    times: int
    on: tuple[str, ...]
    from_checkpoint: bool

    @classmethod
    def of(cls, asked: Any) -> Policy | None:
        """Read `retry` of a resolved recipe; None where it asks for nothing, or for what no recipe can ask."""
        if not isinstance(asked, Mapping):
            return None
        times, on, from_checkpoint = asked.get("times"), asked.get("on"), asked.get("from_checkpoint")
        if type(times) is not int or not isinstance(on, (list, tuple)) or not isinstance(from_checkpoint, bool):
            return None
        return cls(times, tuple(cause for cause in on if isinstance(cause, str)), from_checkpoint)


class RetryingByRecipe:
    """Looks at runs that have ended, and retries those that their machine ended, each once a look."""

    def __init__(self, index: Index, tell: Tell) -> None:
        self._index, self._tell = index, tell
        self._left_alone: set[str] = set()

    def tend(self, rows: Sequence[Snapshot]) -> frozenset[str]:
        """Retry what may be retried; the ids of runs of which an attempt goes on now."""
        due = [(row, policy) for row in rows if (policy := self._policy(row)) is not None]
        causes = _causes([row for row, _ in due])
        begun = [row for row, policy in due if self._retry(row, policy, causes.get(row.ref.run_id, ()))]
        return frozenset(row.ref.run_id for row in begun)

    def _policy(self, row: Snapshot) -> Policy | None:
        """None for a run that is not to be retried, whatever ended it."""
        if row.state not in (RunState.LOST, RunState.FAILED) or row.ref.run_id in self._left_alone:
            return None
        policy = Policy.of(row.retry)
        if policy is None or _is_judged(row):
            return None
        if row.observation.attempt > policy.times:
            self._leave(row, f"attempt {row.observation.attempt} was the last that its recipe allows")
            return None
        return policy

    def _retry(self, row: Snapshot, policy: Policy, causes: Sequence[str]) -> bool:
        from rlx.api.retrying import attempt_lines, looks_at, retry_one

        cause = next((each for each in causes if each in policy.on), None)
        if cause is None:
            ended_by = " and ".join(causes) or "no known cause"
            self._leave(row, f"not retried: {ended_by}, and retry.on has {', '.join(policy.on)}")
            return False
        try:
            (sight,) = looks_at(self._index, [row.ref])
            begun = retry_one(self._index, sight, policy.from_checkpoint, os.environ, f"retry.on {cause}", spare=True)
        except RlxError as error:
            self._leave(row, f"not retried: {error.message}")
            return False
        for line in attempt_lines(begun):
            self._tell(line)
        return True

    def _leave(self, row: Snapshot, why: str) -> None:
        self._left_alone.add(row.ref.run_id)
        self._tell(f"rlx: {row.ref.run_id}: {why}")


def _is_judged(row: Snapshot) -> bool:
    """Tell whether the experiment itself has its verdict: what is invalid is not tried again."""
    from rlx.evidence import VerdictStatus

    return row.verdict.status is VerdictStatus.INVALID or row.verdict.dissent


def _causes(rows: Sequence[Snapshot]) -> dict[str, tuple[str, ...]]:
    """What ended each of these runs: that it is lost, what its host says, and what its log names."""
    from rlx.runs.judging.diagnose_runs import causes_of

    found = causes_of(rows) if rows else {}
    return {row.ref.run_id: _words(row, found.get(row.ref.run_id)) for row in rows}


def _words(row: Snapshot, hit: Any) -> tuple[str, ...]:
    lost = [LOST] if row.state is RunState.LOST else []
    # Of a job that its scheduler ended, the log may begin with what only followed from that, and have no word of it.
    told = _ID.findall(row.observation.detail)
    return tuple(dict.fromkeys([*lost, *told, *([hit.id] if hit is not None else [])]))
