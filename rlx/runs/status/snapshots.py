"""Take snapshots of runs: their state, their files and their manifest, all at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlx.errors import RlxError
from rlx.evidence import Evidence, read_evidence
from rlx.evidence.diagnosis import Quiet, is_stalled
from rlx.evidence.verdict import without_evidence
from rlx.hosts import transport_for
from rlx.hosts.script_parts import run_part, run_parts
from rlx.model import Place, RunState
from rlx.runs.bundles.bundled_run import copies_of, noted_runs, observe_bundled
from rlx.runs.copies.answers import bring_summaries
from rlx.runs.copies.mirror import (
    WHOLE_DEADLINE_S,
    Copies,
    RunFiles,
    copy_on,
    folder_of,
    gathered,
    kept,
    limits,
    mirrored,
    refresh,
    request,
    take,
)
from rlx.runs.duration import duration
from rlx.runs.importing.log_copy import observe_adopted, unasked_adopted
from rlx.runs.importing.log_source import is_adopted
from rlx.runs.index.labels import NO_LABEL
from rlx.runs.index.run_index import Index
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import Manifest, manifest_digest, manifest_text, parse_manifest
from rlx.runs.queries import DEADLINE_S, QueryResult, query_places
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.status.conclusion import add_nodes, observe
from rlx.runs.status.host_report import Reports, RunFacts, read_report, report_part, request_reports
from rlx.runs.status.observation import Observation

if TYPE_CHECKING:
    from rlx.evidence import Verdict
    from rlx.evidence.reading.usage_file import UsageSample
    from rlx.model import Expectations, Registration
    from rlx.runs.index.hidden_runs import HiddenRun
    from rlx.runs.index.labels import RunLabel

_CHANGED_ID = "RLX410"
_CHANGED = f"{_CHANGED_ID} its manifest.json is not the one that was launched, so nothing of it is believed"
_LONGEST_PAUSE_S = 15.0

T = TypeVar("T")
ObservationsById = dict[str, Observation]

UNREAD = Evidence()
"""Stands for evidence that has not been read yet."""
_NO_FILES = RunFiles(Path("/nonexistent"))
_NOT_JUDGED = without_evidence("not judged yet")
_Facts = dict[str, RunFacts] | RlxError


class Files(StrEnum):
    """How much of the files of runs on other machines a snapshot copies to this one."""

    HERE = "here"
    """Nothing: the copies are used as they are."""
    NEW = "new"
    """What is new, for as long as a person would wait; in the command that queries the states."""
    WHOLE = "whole"
    """All that evidence needs, in as many commands as it takes."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The other nodes of a run: their attempts by names such as `node 1 on a4`, and those not copied to their end."""

    nodes: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    @property
    def attempts(self) -> tuple[Path, ...]:
        return tuple(attempt for attempts in self.nodes.values() for attempt in attempts)

    def lacks(self, state: RunState) -> str:
        """Describe what is missing of a run in that state; empty if nothing."""
        if not (state.is_terminal and self.unfinished):
            return ""
        return f"the run has ended, and the records of {', '.join(self.unfinished)} are not here to their end"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of a run at one moment.

    Each snapshot has: `observation`, the state and how it was determined; `copy`, its files on this machine; `workers`,
    what is here of its other nodes; `manifest`, None where it cannot be read or is not believed (`disbelief` says why);
    `evidence`, which is `UNREAD` where the state does not depend on it.

    `judged_snapshots` adds the rest: `steps_done` of `steps_total` (by the log, else by the plan); times in seconds;
    `validation`, the last (step, value) of `metric`; `container`, its name or id in the plan; `submitted_by`: user,
    machine and version of rlx; `as_of`, when the evidence was read on the run's host (an epoch; None: now); `label`,
    tags and note from this machine; `registration`, the experiment that the manifest names; `removed`, who hid the run
    and when; `sample`, the latest usage of its devices, processes and host, while it runs; `devices`, how many it
    leases, and `device_list`, which, if the plan names them; `moved_from`, hosts that it was withdrawn from before it
    began; `retry`, what its recipe says about further attempts.
    """

    ref: RunRef
    observation: Observation
    evidence: Evidence = UNREAD
    verdict: Verdict = _NOT_JUDGED
    copy: RunFiles = _NO_FILES
    workers: Workers = field(default_factory=Workers)
    manifest: Manifest | None = None
    disbelief: str = ""
    steps_done: int = 0
    steps_total: int | None = None
    step_seconds: float | None = None
    seconds_left: float | None = None
    metric: str | None = None
    validation: tuple[int, float] | None = None
    container: str | None = None
    expectations: Expectations | None = None
    submitted_by: Mapping[str, str] = field(default_factory=dict)
    as_of: float | None = None
    label: RunLabel = NO_LABEL
    registration: Registration | None = None
    removed: HiddenRun | None = None
    sample: UsageSample | None = None
    devices: int = 1
    device_list: tuple[int, ...] = ()
    moved_from: tuple[str, ...] = ()
    retry: Any = None

    @property
    def state(self) -> RunState:
        return self.observation.state

    @property
    def sample_age(self) -> float | None:
        """Seconds since the sample was taken, by the clock of its host; None if the host was not queried just now."""
        seen = self.observation
        if self.sample is None or seen.started_epoch is None or seen.seconds_since_start is None or self.as_of:
            return None
        return max(0.0, seen.started_epoch + seen.seconds_since_start - self.sample.at)


def take_snapshots(
    index: Index, refs: Sequence[RunRef], files: Files = Files.HERE, backoff: HostBackoff | None = None
) -> dict[str, Snapshot]:
    """Take a snapshot of each run, by id in the order of `refs`; all hosts at once.

    Raises nothing for a host that does not answer. With `backoff`, hosts that failed to answer just now are skipped.
    """
    backoff = backoff or HostBackoff(index)
    due = backoff.due(refs)
    others = [ref for ref in refs if ref not in due]
    snapshots = _query(index, due, files) | _snapshots(index, others, backoff.last, kept(index, others))
    backoff.note(due, {run_id: snapshot.observation for run_id, snapshot in snapshots.items()})
    return {ref.run_id: snapshots[ref.run_id] for ref in refs}


def cached_snapshots(index: Index, refs: Sequence[RunRef]) -> dict[str, Snapshot]:
    """Return, by id, those of these runs that have ended by their files on this machine; no host is queried."""
    copies = kept(index, refs)
    ends = {ref.run_id: end for ref in refs if (end := copies[ref.run_id].final_state) is not None}
    seen = {run_id: Observation(run_id, state) for run_id, state in ends.items()}
    return _snapshots(index, [ref for ref in refs if ref.run_id in ends], seen, copies)


def _query(index: Index, refs: Sequence[RunRef], files: Files) -> dict[str, Snapshot]:
    """Query the hosts of these runs, and cache their states for the time when the hosts do not answer."""
    workers = index.workers(refs)
    nodes = [*refs, *(worker for worker in workers if worker not in refs)]
    seen, copies = _query_states_and_files(index, nodes, files)
    # Runs that ended meanwhile are queried again, so that state and files are of one moment.
    ahead = [ref for ref in nodes if _shows_a_later_end(ref, seen[ref.run_id], copies[ref.run_id])]
    behind = [ref for ref in nodes if _lacks_its_end(seen[ref.run_id], copies[ref.run_id])]
    seen |= observe(index, ahead, request_reports(ahead)) if ahead else {}
    copies |= refresh(index, behind, whole=files is Files.WHOLE)
    if files is not Files.HERE:
        bring_summaries([ref for ref in nodes if not is_adopted(ref)], copies, whole=files is Files.WHOLE)
    snapshots = _snapshots(index, refs, seen, copies)
    seen |= {run_id: snapshot.observation for run_id, snapshot in snapshots.items()}
    index.cache_states([seen[ref.run_id] for ref in nodes if _is_worth_caching(ref, seen[ref.run_id])])
    for ref in refs:
        of_head = [worker for worker in workers if worker.head_id == ref.run_id]
        head = snapshots[ref.run_id]
        snapshots[ref.run_id] = replace(head, observation=add_nodes(head.observation, of_head, seen))
    return snapshots


def _is_worth_caching(ref: RunRef, seen: Observation) -> bool:
    """Tell whether the state may be needed: this machine always answers, and an imported log has its own copy."""
    return not ref.place.is_local or (seen.state is RunState.UNREACHABLE and not is_adopted(ref))


def _lacks_its_end(seen: Observation, copy: RunFiles) -> bool:
    return seen.exit_code is not None and copy.end is None and copy.problem is None


def _shows_a_later_end(ref: RunRef, seen: Observation, copy: RunFiles) -> bool:
    is_of_now = copy.problem is None and not ref.place.is_local
    return is_of_now and copy.end is not None and not (seen.state.is_terminal or seen.state is RunState.UNREACHABLE)


def _query_states_and_files(index: Index, nodes: Sequence[RunRef], files: Files) -> tuple[ObservationsById, Copies]:
    """Query the hosts of launched runs, and meanwhile those of tracked logs.

    No host is queried about runs of a bundle, whatever their files say about where they ran.
    """
    runs = noted_runs(index.home, nodes)
    bundled = copies_of(runs, nodes)
    adopted = [ref for ref in nodes if ref.run_id not in bundled and is_adopted(ref)]
    launched = [ref for ref in nodes if ref.run_id not in bundled and ref not in adopted]

    def query_launched() -> tuple[Reports, Copies]:
        if files is Files.HERE:
            return request_reports(launched), kept(index, launched)
        reports, copied = query_states_and_files(index, launched, whole=files is Files.WHOLE)
        return reports, gathered(index, launched, copied)

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(query_launched)
        seen_adopted = observe_adopted(adopted)
        reports, copies = result.result()
    seen = {**observe(index, launched, reports), **seen_adopted, **observe_bundled(runs, bundled)}
    return seen, {**copies, **kept(index, adopted), **bundled}


def query_states_and_files(index: Index, refs: Sequence[RunRef], *, whole: bool) -> tuple[Reports, QueryResult[Copies]]:
    """Query the states of these runs and what is new in their files (`whole`: all of it), in one command per host.

    A channel and its shells cost more than either answer. One may fail where the other succeeds. The states come first:
    a run that had ended by then has its end in the copy.
    """
    home = folder_of(index)
    deadline_s = WHOLE_DEADLINE_S if whole else DEADLINE_S

    def query(place: Place, root: str, ids: Sequence[str]) -> tuple[Place, _Facts, Copies | RlxError]:
        report = report_part(root, ids, refs)
        if place.is_local:
            return place, read_report(place, root, run_part(transport_for(place), report, DEADLINE_S), time.time()), {}
        began, (until, timeout_s) = time.time(), limits(whole=whole)
        mirror_request = request(home, root, ids, timeout_s)
        reported, copied = run_parts(transport_for(place), [report, mirror_request.part], timeout_s)

        def copies() -> Copies:
            cursors = take(home, place, ids, mirror_request, copied, began)
            return mirrored(home, copy_on(home, place, root, cursors, until, whole=whole))

        return place, _result_or_error(lambda: read_report(place, root, reported, began)), _result_or_error(copies)

    both = query_places(refs, query, deadline_s)
    facts = [(place, found) for place, found, _ in both.answers]
    copies = [(place, found) for place, _, found in both.answers]
    return _without_errors(facts, both.failures), _without_errors(copies, both.failures)


def _result_or_error(call: Callable[[], T]) -> T | RlxError:
    try:
        return call()
    except RlxError as problem:
        return problem


def _without_errors(
    results: Sequence[tuple[Place, T | RlxError]], failures: Mapping[Place, RlxError]
) -> QueryResult[T]:
    errors = {place: result for place, result in results if isinstance(result, RlxError)}
    return QueryResult([result for _, result in results if not isinstance(result, RlxError)], {**failures, **errors})


def _snapshots(
    index: Index, refs: Sequence[RunRef], seen: Mapping[str, Observation], copies: Mapping[str, RunFiles]
) -> dict[str, Snapshot]:
    """Combine states, files, manifests and evidence."""
    workers, parsed = _workers_of(index, refs, copies), ParsedFiles(index.home)
    sent = index.digests([ref.run_id for ref in refs])
    snapshots = {}
    for ref in refs:
        found, text = seen[ref.run_id], manifest_text(copies[ref.run_id].run_dir)
        manifest, disbelief = parse_manifest(text), ""
        # Host and container can write the file, and it holds the expectations.
        if manifest is not None and ref.run_id in sent and manifest_digest(text) not in sent[ref.run_id]:
            manifest, disbelief = None, _CHANGED
        if not found.detail.startswith(disbelief):
            found = replace(found, detail="; ".join(filter(None, (disbelief, found.detail))))
        copy, evidence = _up_to_its_end(copies[ref.run_id], found), UNREAD
        # A worker has no steps of its own.
        if found.state in (RunState.STARTING, RunState.RUNNING) and not ref.node:
            evidence = read_evidence(RunPaths(copy.run_dir).attempts, parsed)
        expectations = manifest.plan.expectations if manifest else None
        copied_end = None if ref.place.is_local else copy.final_state
        observation = conclude(found, copied_end, evidence, expectations)
        snapshots[ref.run_id] = Snapshot(
            ref,
            observation,
            evidence,
            copy=copy,
            workers=workers[ref.run_id],
            manifest=manifest,
            disbelief=disbelief,
        )
    return snapshots


def _workers_of(index: Index, refs: Sequence[RunRef], copies: Mapping[str, RunFiles]) -> Mapping[str, Workers]:
    """Find what is here of the other nodes of runs, by the ids of the heads.

    A node writes nothing that counts after its head has ended, so a copy of that time is complete.
    """
    workers = index.workers(refs)
    copies = {**kept(index, [worker for worker in workers if worker.run_id not in copies]), **copies}
    found = {ref.run_id: Workers() for ref in refs}
    for worker in workers:
        copy, head = copies[worker.run_id], found[worker.head_id]
        is_late = copy.problem is not None and copy.end is None
        name = f"node {worker.node} on {worker.host}"
        unfinished = [name] if is_late or copy.lacks else []
        nodes = {**head.nodes, name: tuple(RunPaths(copy.run_dir).attempts)}
        found[worker.head_id] = Workers(nodes, (*head.unfinished, *unfinished))
    return found


def _up_to_its_end(copy: RunFiles, seen: Observation) -> RunFiles:
    """Note that the copy is older than the end of the run, where its evidence could not be copied after that."""
    if seen.exit_code is None or copy.end is not None:
        return copy
    why = "its host does not answer" if copy.problem else seen.detail or "its files cannot be read"
    return replace(copy, lacks=f"the run has ended, but {why}, and the copy here is from before that")


def conclude(
    seen: Observation, copied_end: RunState | None, evidence: Evidence, expectations: Expectations | None
) -> Observation:
    """Correct the state by what the host does not see. `copied_end` and `expectations` are None if not known.

    `derive_state` goes by the files and processes of a run. Only its log shows whether it makes steps and how long one
    takes; and the end of a run on a silent host may be in the copy.
    """
    if seen.state is RunState.UNREACHABLE and copied_end is not None:
        return replace(seen, state=copied_end)
    if evidence is UNREAD:
        return seen
    if seen.state is RunState.STARTING and evidence.last_step:
        # A back-end may log its steps to the console only, which the host does not read.
        seen = replace(seen, state=RunState.RUNNING)
    if seen.state is RunState.RUNNING and expectations and is_stalled(evidence, expectations, quiet(seen)):
        words = f"no step for {duration(quiet(seen).without_step_s or 0)}: rlx diagnose {seen.run_id}"
        return replace(seen, state=RunState.STALLED, detail="; ".join(filter(None, (seen.detail, words))))
    return seen


def quiet(seen: Observation) -> Quiet:
    """Return for how long the run has been silent."""
    return Quiet(seen.seconds_since_step, seen.seconds_since_log, seen.seconds_since_start)


class HostBackoff:
    """Pauses between queries of hosts that do not answer, longer each time, so that they do not delay the others.

    `last` is the last observation of each run, by id.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.last: dict[str, Observation] = {}
        self._pauses: dict[Place, float] = {}
        self._due: dict[Place, float] = {}

    def due(self, refs: Sequence[RunRef]) -> list[RunRef]:
        """Return the runs whose hosts are to be queried now."""
        now = time.monotonic()
        return [ref for ref in refs if ref.run_id not in self.last or self._due.get(ref.place, now) <= now]

    def note(self, refs: Sequence[RunRef], seen: Mapping[str, Observation]) -> None:
        """Keep new observations of these runs, and pause for the hosts that did not answer."""
        self.last |= {ref.run_id: seen[ref.run_id] for ref in refs}
        silent = {ref.place for ref in refs if seen[ref.run_id].unreachable_since is not None}
        for place in {ref.place for ref in refs}:
            self._pause(place, min(_LONGEST_PAUSE_S, 1.0 + 2 * self._pauses.get(place, 0.0)) * (place in silent))

    def leave_alone(self, refs: Sequence[RunRef], failure: RlxError) -> None:
        """Note that the host of these runs has just failed to answer another query."""
        adopted, launched = [ref for ref in refs if is_adopted(ref)], [ref for ref in refs if not is_adopted(ref)]
        seen = observe(self._index, launched, QueryResult((), {ref.place: failure for ref in launched}))
        self._index.cache_states(list(seen.values()))
        self.last |= {**unasked_adopted(adopted, failure), **seen}
        for place in {ref.place for ref in refs}:
            self._pause(place, 1.0)

    def _pause(self, place: Place, seconds: float) -> None:
        self._pauses[place] = seconds
        self._due[place] = time.monotonic() + seconds
