"""Answers "what is this run?" for every command: its state, its files and its manifest, at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rlx.errors import RlxError
from rlx.evidence import Evidence, read_evidence
from rlx.evidence.diagnosis import Quiet, is_stalled
from rlx.hosts import transport_for
from rlx.hosts.script_parts import run_part, run_parts
from rlx.model import Place, RunState
from rlx.runs.bundles.bundled_run import copies_of, observe_bundled, stated
from rlx.runs.copies.answers import bring_summaries
from rlx.runs.copies.mirror import (
    WHOLE_DEADLINE_S,
    Copies,
    Mirrored,
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
from rlx.runs.index.run_index import Index
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import Manifest, manifest_digest, manifest_text, parse_manifest
from rlx.runs.queries import DEADLINE_S, Asked, ask
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.status.host_report import Facts, Reports, read_report, report_part, request_reports
from rlx.runs.status.observation import Observation, add_nodes, observe

if TYPE_CHECKING:
    from rlx.model import Expectations

_CHANGED_ID = "RLX410"
_CHANGED = f"{_CHANGED_ID} its manifest.json is not the one that was launched, so nothing of it is believed"
Observations = dict[str, Observation]
"""By the ids of the runs."""


class Files(StrEnum):
    """The share of the files of runs on other machines that a look brings here."""

    HERE = "here"
    """Nothing: they count as the last look left them."""
    NEW = "new"
    """What came since, as far as a person would wait for it; in the command that asks for the states."""
    WHOLE = "whole"
    """All that evidence needs, in as many commands as it takes."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A run as one look finds it.

    `observation` holds its state and how it was seen. `copy` is where its files are on this machine, `workers` what is
    here of its other nodes. `manifest` is None where it cannot be read, or is not believed: `disbelief` says why.
    `evidence` is what its files show, None where its state does not depend on that: then they are yet to be read.
    """

    ref: RunRef
    observation: Observation
    copy: Mirrored
    workers: Workers
    manifest: Manifest | None
    evidence: Evidence | None = None
    disbelief: str = ""

    @property
    def state(self) -> RunState:
        return self.observation.state


def look(
    index: Index, refs: Sequence[RunRef], files: Files = Files.HERE, visits: Revisit | None = None
) -> dict[str, Sight]:
    """Each run by its id, in the order of `refs`; all places at once. A place that does not answer raises nothing.

    With `visits`, places that failed to answer a moment ago are left alone.
    """
    visits = visits or Revisit(index)
    due = visits.due(refs)
    rest = [ref for ref in refs if ref not in due]
    sights = _look_anew(index, due, files) | _sights(index, rest, visits.last, kept(index, rest))
    visits.note(due, {run_id: sight.observation for run_id, sight in sights.items()})
    return {ref.run_id: sights[ref.run_id] for ref in refs}


def look_here(index: Index, refs: Sequence[RunRef]) -> dict[str, Sight]:
    """Those of these runs by id that have ended by what is here of them; nobody is asked."""
    copies = kept(index, refs)
    ends = {ref.run_id: end for ref in refs if (end := copies[ref.run_id].final_state) is not None}
    seen = {run_id: Observation(run_id, state) for run_id, state in ends.items()}
    return _sights(index, [ref for ref in refs if ref.run_id in ends], seen, copies)


def _look_anew(index: Index, refs: Sequence[RunRef], files: Files) -> dict[str, Sight]:
    """The runs after their places were asked; what was seen is kept for the time when they do not answer."""
    workers = index.workers(refs)
    nodes = [*refs, *(worker for worker in workers if worker not in refs)]
    seen, copies = _catch_up(index, nodes, files, *_ask(index, nodes, files))
    if files is not Files.HERE:
        bring_summaries([ref for ref in nodes if not is_adopted(ref)], copies, whole=files is Files.WHOLE)
    sights = _sights(index, refs, seen, copies)
    seen |= {run_id: sight.observation for run_id, sight in sights.items()}
    index.cache_states([seen[ref.run_id] for ref in nodes if _is_worth_memory(ref, seen[ref.run_id])])
    of_head = {ref.run_id: [worker for worker in workers if worker.head_id == ref.run_id] for ref in refs}
    return {
        run_id: replace(sight, observation=add_nodes(sight.observation, of_head[run_id], seen))
        for run_id, sight in sights.items()
    }


def _is_worth_memory(ref: RunRef, seen: Observation) -> bool:
    """Tell whether it is worth keeping: this machine can be asked at any time, and a log taken in has its own copy."""
    return not ref.place.is_local or (seen.state is RunState.UNREACHABLE and not is_adopted(ref))


def _ask(index: Index, nodes: Sequence[RunRef], files: Files) -> tuple[Observations, Copies]:
    """Ask the places of the runs that rlx started, and meanwhile for the logs of those that it took in.

    Nobody is asked about runs of a bundle, whatever their files say of where they ran.
    """
    runs = stated(index.home, nodes)
    bundled = copies_of(runs, nodes)
    nodes = [ref for ref in nodes if ref.run_id not in bundled]
    adopted = [ref for ref in nodes if is_adopted(ref)]
    own = [ref for ref in nodes if ref not in adopted]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_ask_places, index, own, files)
        seen_adopted = observe_adopted(adopted)
        reports, copies = asked.result()
    seen = {**observe(index, own, reports), **seen_adopted, **observe_bundled(runs, bundled)}
    return seen, {**copies, **kept(index, adopted), **bundled}


def _ask_places(index: Index, refs: Sequence[RunRef], files: Files) -> tuple[Reports, Copies]:
    if files is Files.HERE:
        return request_reports(refs), kept(index, refs)
    reports, copied = request_states_and_files(index, refs, whole=files is Files.WHOLE)
    return reports, gathered(index, refs, copied)


def _catch_up(
    index: Index, nodes: Sequence[RunRef], files: Files, seen: Observations, copies: Copies
) -> tuple[Observations, Copies]:
    """Ask again for runs that ended while they were looked at, so that state and files are of one moment."""
    behind = [ref for ref in nodes if _lacks_its_end(seen[ref.run_id], copies[ref.run_id])]
    ahead = [ref for ref in nodes if _shows_a_later_end(ref, seen[ref.run_id], copies[ref.run_id])]
    again = observe(index, ahead, request_reports(ahead)) if ahead else {}
    return seen | again, copies | refresh(index, behind, whole=files is Files.WHOLE)


def _lacks_its_end(seen: Observation, copy: Mirrored) -> bool:
    return seen.exit_code is not None and copy.end is None and copy.problem is None


def _shows_a_later_end(ref: RunRef, seen: Observation, copy: Mirrored) -> bool:
    is_of_now = copy.problem is None and not ref.place.is_local
    return is_of_now and copy.end is not None and not (seen.state.is_terminal or seen.state is RunState.UNREACHABLE)


def _sights(
    index: Index, refs: Sequence[RunRef], seen: Mapping[str, Observation], copies: Mapping[str, Mirrored]
) -> dict[str, Sight]:
    workers, parsed = workers_of(index, refs, copies), ParsedFiles(index.home)
    sent = index.digests([ref.run_id for ref in refs])
    sights = {}
    for ref in refs:
        copy, found = copies[ref.run_id], seen[ref.run_id]
        manifest, why = _believed(manifest_text(copy.run_dir), sent.get(ref.run_id))
        if not found.detail.startswith(why):
            found = replace(found, detail="; ".join(filter(None, (why, found.detail))))
        sight = _sight(ref, found, copy, workers[ref.run_id], manifest, parsed)
        sights[ref.run_id] = replace(sight, disbelief=why)
    return sights


def _believed(text: str, sent: Collection[str] | None) -> tuple[Manifest | None, str]:
    """The manifest, and why it is not believed: host and container can write the file, and it holds the promises."""
    manifest = parse_manifest(text)
    if manifest is None or sent is None or manifest_digest(text) in sent:
        return manifest, ""
    return None, _CHANGED


def _sight(
    ref: RunRef, seen: Observation, copy: Mirrored, workers: Workers, manifest: Manifest | None, parsed: ParsedFiles
) -> Sight:
    copy = _up_to_its_end(copy, seen)
    evidence = None
    # A worker has no steps of its own.
    if seen.state in (RunState.STARTING, RunState.RUNNING) and not ref.node:
        evidence = read_evidence(RunPaths(copy.run_dir).attempts, parsed)
    expectations = manifest.plan.expectations if manifest else None
    copied_end = None if ref.place.is_local else copy.final_state
    return Sight(ref, conclude(seen, copied_end, evidence, expectations), copy, workers, manifest, evidence)


def _up_to_its_end(copy: Mirrored, seen: Observation) -> Mirrored:
    """The end of a run may be known, and its host or its files gone before the evidence of it was copied."""
    if seen.exit_code is None or copy.end is not None:
        return copy
    why = "its host does not answer" if copy.problem else seen.detail or "its files cannot be read"
    return replace(copy, lacks=f"the run has ended, but {why}, and the copy here is from before that")


def conclude(
    seen: Observation, copied_end: RunState | None, evidence: Evidence | None, expectations: Expectations | None
) -> Observation:
    """The observation with the state that follows from all of it. What is None is not known.

    `derive_state` goes by the files and processes of a run. Only its log says whether it makes steps, and how long one
    takes; and what a silent host cannot tell, the copy of a run that is over can.
    """
    if seen.state is RunState.UNREACHABLE and copied_end is not None:
        return replace(seen, state=copied_end)
    return _by_its_log(seen, evidence, expectations) if evidence else seen


def _by_its_log(seen: Observation, evidence: Evidence, expectations: Expectations | None) -> Observation:
    if seen.state is RunState.STARTING and evidence.last_step:
        # A back-end may log its steps to the console only, where the host does not look.
        seen = replace(seen, state=RunState.RUNNING)
    if seen.state is RunState.RUNNING and expectations and is_stalled(evidence, expectations, quiet(seen)):
        return _stalled(seen)
    return seen


def _stalled(seen: Observation) -> Observation:
    words = f"no step for {duration(quiet(seen).without_step_s or 0)}: rlx diagnose {seen.run_id}"
    return replace(seen, state=RunState.STALLED, detail="; ".join(filter(None, (seen.detail, words))))


def quiet(seen: Observation) -> Quiet:
    """The time for which the run has been silent."""
    return Quiet(seen.seconds_since_step, seen.seconds_since_log, seen.seconds_since_start)


T = TypeVar("T")
_Facts = dict[str, Facts] | RlxError
_Both = tuple[Place, _Facts, Copies | RlxError]


def request_states_and_files(index: Index, refs: Sequence[RunRef], *, whole: bool) -> tuple[Reports, Asked[Copies]]:
    """Ask the places of these runs for their states, and for what is new in their files; `whole`: for all of it.

    Either may fail where the other does not. The states come first: what had ended by then has its end in the copy.
    """
    home = folder_of(index)
    deadline_s = WHOLE_DEADLINE_S if whole else DEADLINE_S
    asked = ask(refs, lambda place, root, ids: _both(home, place, root, ids, refs, whole), deadline_s)
    facts = [(place, found) for place, found, _ in asked.answers]
    copies = [(place, found) for place, _, found in asked.answers]
    return _sorted(facts, asked), _sorted(copies, asked)


def _both(home: Path, place: Place, root: str, ids: Sequence[str], refs: Sequence[RunRef], whole: bool) -> _Both:
    report = report_part(root, ids, refs)
    if place.is_local:
        return place, read_report(place, root, run_part(transport_for(place), report, DEADLINE_S), time.time()), {}
    began, (until, timeout_s) = time.time(), limits(whole=whole)
    asked = request(home, root, ids, timeout_s)
    reported, copied = run_parts(transport_for(place), [report, asked.part], timeout_s)

    def copies() -> Copies:
        cursors = take(home, place, ids, asked, copied, began)
        return mirrored(home, copy_on(home, place, root, cursors, until, whole=whole))

    return place, _tried(lambda: read_report(place, root, reported, began)), _tried(copies)


def _tried(call: Callable[[], T]) -> T | RlxError:
    try:
        return call()
    except RlxError as problem:
        return problem


def _sorted(found: Sequence[tuple[Place, T | RlxError]], asked: Asked[_Both]) -> Asked[T]:
    failures = {place: problem for place, problem in found if isinstance(problem, RlxError)}
    answers = [answer for _, answer in found if not isinstance(answer, RlxError)]
    return Asked(answers, {**asked.failures, **failures})


@dataclass(frozen=True, slots=True)
class Workers:
    """Of one run: the attempts on its other nodes, by `node 1 on a4`; which of them may not be here to their end."""

    nodes: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    @property
    def attempts(self) -> tuple[Path, ...]:
        return tuple(attempt for attempts in self.nodes.values() for attempt in attempts)

    def lacks(self, state: RunState) -> str:
        """Say what of a run in that state is not here; empty if nothing."""
        if not (state.is_terminal and self.unfinished):
            return ""
        return f"the run has ended, and the records of {', '.join(self.unfinished)} are not here to their end"


def workers_of(index: Index, refs: Sequence[RunRef], copies: Mapping[str, Mirrored]) -> Mapping[str, Workers]:
    """Find them by the ids of the heads. `copies` are of the last look; what it did not bring is taken as it is here.

    A node writes nothing that counts after its head has ended, so that a copy of that time is whole.
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


_LONGEST_PAUSE_S = 15.0


class Revisit:
    """A place that does not answer is left alone for a while, longer each time: it must not hold up the others.

    `last` is the last observation of each run, by id.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.last: dict[str, Observation] = {}
        self._pauses: dict[Place, float] = {}
        self._due: dict[Place, float] = {}

    def due(self, refs: Sequence[RunRef]) -> list[RunRef]:
        """The runs whose places it is time to ask."""
        now = time.monotonic()
        return [ref for ref in refs if ref.run_id not in self.last or self._due.get(ref.place, now) <= now]

    def note(self, refs: Sequence[RunRef], seen: Mapping[str, Observation]) -> None:
        """Take over what has just been seen of these runs, and leave the places alone that did not answer."""
        self.last |= {ref.run_id: seen[ref.run_id] for ref in refs}
        silent = {ref.place for ref in refs if seen[ref.run_id].unreachable_since is not None}
        for place in {ref.place for ref in refs}:
            self._set_pause(place, min(_LONGEST_PAUSE_S, 1.0 + 2 * self._pauses.get(place, 0.0)) * (place in silent))

    def leave_alone(self, refs: Sequence[RunRef], failure: RlxError) -> None:
        """Note that the host of these runs has just been asked for something else, in vain."""
        adopted, own = [ref for ref in refs if is_adopted(ref)], [ref for ref in refs if not is_adopted(ref)]
        seen = observe(self._index, own, Asked((), {ref.place: failure for ref in own}))
        self._index.cache_states(list(seen.values()))
        self.last |= {**unasked_adopted(adopted, failure), **seen}
        for place in {ref.place for ref in refs}:
            self._set_pause(place, 1.0)

    def _set_pause(self, place: Place, seconds: float) -> None:
        self._pauses[place] = seconds
        self._due[place] = time.monotonic() + seconds
