"""Answers "what is this run?" for every command: its state, its files and its manifest, at one moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from rlx.evidence import Evidence, read_evidence
from rlx.model import RunState
from rlx.runs.adopted.adopted_state import observe_adopted
from rlx.runs.adopted.log_source import is_adopted
from rlx.runs.bundles.bundled_run import copies_of, observe_bundled, stated
from rlx.runs.copies.answer_summaries import bring_summaries
from rlx.runs.copies.mirror import Copies, Mirrored, gathered, kept, refresh
from rlx.runs.index.promises import manifest_digest
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.judging.workers import Workers, workers_of
from rlx.runs.looking.conclusion import conclude
from rlx.runs.looking.observation import Observation
from rlx.runs.looking.observe import add_nodes, observe
from rlx.runs.looking.revisit import Revisit
from rlx.runs.looking.state_report import Reports, request_reports
from rlx.runs.looking.states_and_files import request_states_and_files
from rlx.runs.manifest import Manifest, manifest_text, parse_manifest
from rlx.runs.run import RunPaths, RunRef

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index

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
    index.remember([seen[ref.run_id] for ref in nodes if _is_worth_memory(ref, seen[ref.run_id])])
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
