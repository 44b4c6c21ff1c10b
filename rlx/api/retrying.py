"""Begin further attempts of runs, as `rlx retry` does, and as waiting commands do where a recipe says so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError, UsageError
from rlx.model import RunState
from rlx.model.attempt_lineage import LOST

if TYPE_CHECKING:
    from rlx.api.runs import Runs, Tell
    from rlx.model import LaunchPlan
    from rlx.model.attempt_lineage import Lineage
    from rlx.runs import Index, RunRef, Snapshot
    from rlx.runs.launching.retry import Resumption
    from rlx.runs.manifest import Manifest

_OVER = (RunState.FAILED, RunState.STOPPED, RunState.LOST)
_ID = re.compile(r"\bRLX\d{3}\b")


@dataclass(frozen=True, slots=True)
class Retried:
    """A run whose attempt `attempt` is running now. `is_new`: this call started it. `lineage`: how it was started."""

    ref: RunRef
    attempt: int
    is_new: bool = False
    lineage: Lineage | None = None


def attempt_lines(one: Retried) -> Iterator[str]:
    """Yield which attempt continues from where, and which checkpoints it could not use."""
    if one.lineage is None:
        yield f"rlx: {one.ref.run_id}: attempt {one.attempt} is running already; nothing was started"
        return
    step, checkpoint = one.lineage.step, one.lineage.checkpoint
    where = f"continues from the checkpoint of step {step} ({checkpoint})" if checkpoint else "begins anew"
    yield f"rlx: {one.ref.run_id}: attempt {one.attempt} {where}"
    for each in one.lineage.passed_over:
        yield f"rlx: {one.ref.run_id}: no checkpoint to go on from: {each}"


def retry(runs: Runs, *, from_checkpoint: bool = False, secrets: Mapping[str, str] | None = None) -> list[Retried]:
    """Begin a further attempt of each of these runs, which failed, were stopped or lost; return while they run.

    Without `from_checkpoint` a run begins anew at step 0, and nothing of its earlier attempts counts. With it, the run
    goes on from its last whole checkpoint. A run whose further attempt is running is left alone. `secrets` default
    to the environment's. Raises NoSuchRun for an unknown name; RlxError for the first run that cannot be
    retried: those before it are retried, those after it are not.
    """
    from rlx.api.runs import open_index, runs_or_latest

    index = open_index()
    refs = runs_or_latest(index, runs)
    values = os.environ if secrets is None else secrets
    return [retry_one(index, sight, from_checkpoint, values) for sight in new_snapshots(index, refs)]


def new_snapshots(index: Index, refs: Sequence[RunRef]) -> list[Snapshot]:
    """Query them once, all hosts at a time."""
    from rlx.runs import Files, take_snapshots

    return list(take_snapshots(index, refs, Files.NEW).values())


def secrets_of(sights: Sequence[Snapshot]) -> tuple[str, ...]:
    """Name the secrets that further attempts of these runs need again."""
    found = [name for sight in sights if sight.manifest for name in sight.manifest.plan.secret_names]
    return tuple(dict.fromkeys(found))


def retry_one(
    index: Index, sight: Snapshot, from_checkpoint: bool, secrets: Mapping[str, str], why: str = "", spare: bool = False
) -> Retried:
    """Begin the next attempt of this run. `why`: the reason, where it is not the run's end alone.

    `spare`: where there is no whole checkpoint yet it begins anew. Raises RlxError where nothing was begun.
    """
    from rlx.runs.launching.retry import begin_attempt

    if sight.observation.attempt > 1 and not sight.state.is_terminal and sight.state is not RunState.UNREACHABLE:
        return Retried(sight.ref, sight.observation.attempt)
    manifest = retriable(index, sight)
    lineage, resumption = _planned(sight, manifest, from_checkpoint, why, spare)
    is_new = begin_attempt(sight.ref, manifest, lineage, resumption, secrets)
    _note_begun(index, sight, lineage)
    return Retried(sight.ref, lineage.attempt, is_new, lineage if is_new else None)


def retriable(index: Index, sight: Snapshot) -> Manifest:
    """Return the manifest of a run that is over and may have another attempt. Raises RlxError with the reason."""
    from rlx.hosts.host_errors import HostError
    from rlx.runs.importing.log_source import is_adopted

    ref, state, detail = sight.ref, sight.state, sight.observation.detail
    if is_adopted(ref):
        raise UsageError(f"{ref.run_id}: rlx did not start it, and has its log alone", "start it as it was started")
    if (problem := sight.copy.problem) is not None:
        # What was last known of it may be long ago.
        raise RlxError(f"{ref.run_id}: nothing was started: {problem.message}", problem.hint, problem.exit_code)
    if state is RunState.UNREACHABLE:
        raise HostError(f"{ref.host}: {ref.run_id}: nothing was started: {detail}", "rlx doctor HOST; then again")
    if state is RunState.FINISHED:
        raise RlxError(f"{ref.run_id}: it has finished", "rlx launch starts another run of its recipe")
    if state not in _OVER:
        raise RlxError(f"{ref.run_id}: it is {state}", f"rlx stop {ref.run_id} ends it; then again")
    if sight.manifest is None:
        raise RlxError(f"{ref.run_id}: {sight.disbelief or detail or 'its manifest cannot be read'}", "launch it again")
    _refuse_plan(index, ref, sight.manifest.plan)
    return sight.manifest


def _refuse_plan(index: Index, ref: RunRef, plan: LaunchPlan) -> None:
    if plan.cluster is not None:
        raise RlxError(
            f"{ref.run_id}: it has {plan.cluster.nodes} nodes, and retry knows runs of one", "launch it again"
        )
    if plan.secret_names and not index.digests([ref.run_id]):
        # A person who can write its manifest there could name any secret of this user.
        names = ", ".join(plan.secret_names)
        raise RlxError(
            f"{ref.run_id}: it was not launched from here, so whether it may have {names} is not known here",
            "retry it from the machine that launched it",
        )


def _planned(
    sight: Snapshot, manifest: Manifest, from_checkpoint: bool, why: str, spare: bool
) -> tuple[Lineage, Resumption]:
    from datetime import UTC, datetime

    from rlx.model.attempt_lineage import Lineage
    from rlx.runs.manifest import submitter

    resumption, passed = _resumption(sight.ref, manifest.plan, from_checkpoint, spare)
    chosen, who, code = resumption.checkpoint, submitter(), sight.observation.exit_code
    lineage = Lineage(
        attempt=sight.observation.attempt + 1,
        after=sight.state.value,
        why=why or sight.observation.detail or ("" if code is None else f"exit code {code}"),
        begun=datetime.now(UTC).isoformat(timespec="seconds"),
        by=f"{who['user']}@{who['machine']}",
        step=chosen.step if chosen else (0 if manifest.plan.has_recipe else None),
        checkpoint=chosen.folder if chosen else "",
        passed_over=passed,
    )
    return lineage, resumption


def _resumption(
    ref: RunRef, plan: LaunchPlan, from_checkpoint: bool, spare: bool
) -> tuple[Resumption, tuple[str, ...]]:
    """Choose the last whole checkpoint; say which later ones are not whole."""
    from rlx.backends.registry import optional_part
    from rlx.runs.launching.retry import Resumption, read_checkpoint_files

    if not from_checkpoint:
        return Resumption(), ()
    part = optional_part(plan.backend, "resume") if plan.has_recipe else None
    if part is None:
        why = f"it is not known how {plan.backend} goes on from a checkpoint"
        why = why if plan.has_recipe else "only its own script knows its checkpoints"
        raise UsageError(f"{ref.run_id}: {why}", f"rlx retry {ref.run_id} begins anew")
    found = part.checkpoints(read_checkpoint_files(ref))
    whole = [each for each in found if not each.lacks]
    passed = tuple(f"step {each.step}: {each.lacks}" for each in found if each.lacks)
    if not whole and spare:
        return Resumption(), passed
    if not whole:
        lacking = f"none is whole ({'; '.join(passed)})" if passed else "there is none"
        raise RlxError(f"{ref.run_id}: no checkpoint to go on from: {lacking}", f"rlx retry {ref.run_id} begins anew")
    last = whole[-1]
    aside = tuple(each.folder for each in found if each.lacks or each.step > last.step)
    return Resumption(last, aside, part.MARKER), passed


def _note_begun(index: Index, sight: Snapshot, lineage: Lineage) -> None:
    """Update the cached state, in case its host does not answer the next query."""
    from rlx.runs import Observation

    if not sight.ref.place.is_local:
        index.cache_states([Observation(sight.ref.run_id, RunState.STARTING, attempt=lineage.attempt)])


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
    """Retry the runs that their machine ended, each at most once per query."""

    def __init__(self, index: Index, tell: Tell) -> None:
        self._index, self._tell = index, tell
        self._left_alone: set[str] = set()

    def run_once(self, rows: Sequence[Snapshot]) -> frozenset[str]:
        """Retry what may be retried; return the ids of the runs with a new attempt."""
        due = [(row, policy) for row in rows if (policy := self._policy(row)) is not None]
        causes = _causes([row for row, _ in due])
        begun = [row for row, policy in due if self._retry(row, policy, causes.get(row.ref.run_id, ()))]
        return frozenset(row.ref.run_id for row in begun)

    def _policy(self, row: Snapshot) -> Policy | None:
        """Return the policy of a run; None where it is not to be retried, whatever ended it."""
        from rlx.evidence import VerdictStatus

        if row.state not in (RunState.LOST, RunState.FAILED) or row.ref.run_id in self._left_alone:
            return None
        policy = Policy.of(row.retry)
        # What is invalid is not tried again.
        if policy is None or row.verdict.status is VerdictStatus.INVALID or row.verdict.dissent:
            return None
        if row.observation.attempt > policy.times:
            self._leave(row, f"attempt {row.observation.attempt} was the last that its recipe allows")
            return None
        return policy

    def _retry(self, row: Snapshot, policy: Policy, causes: Sequence[str]) -> bool:
        cause = next((each for each in causes if each in policy.on), None)
        if cause is None:
            ended_by = " and ".join(causes) or "no known cause"
            self._leave(row, f"not retried: {ended_by}, and retry.on has {', '.join(policy.on)}")
            return False
        try:
            (sight,) = new_snapshots(self._index, [row.ref])
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


def _causes(rows: Sequence[Snapshot]) -> dict[str, tuple[str, ...]]:
    """Return what ended each of these runs: that it is lost, what its host says, and what its log names."""
    from rlx.runs.judging.diagnose_runs import causes_of

    found = causes_of(rows) if rows else {}
    return {row.ref.run_id: _words(row, found.get(row.ref.run_id)) for row in rows}


def _words(row: Snapshot, hit: Any) -> tuple[str, ...]:
    lost = [LOST] if row.state is RunState.LOST else []
    # Of a job that its scheduler ended, the log may begin with what only followed from that, and have no word of it.
    told = _ID.findall(row.observation.detail)
    return tuple(dict.fromkeys([*lost, *told, *([hit.id] if hit is not None else [])]))
