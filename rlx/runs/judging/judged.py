"""A run with everything that is known of it: what was planned, what the log shows, and the verdict of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError
from rlx.evidence import (
    JudgedRun,
    VerdictStatus,
    read_evidence,
    settings_of,
    settings_of_config,
    with_nodes,
)
from rlx.plan import RunState
from rlx.plan.run_dir import PROVENANCE_FILE
from rlx.runs.adopted.conflicts import conflicts_of
from rlx.runs.adopted.log_copy import lacks, silent_as_of
from rlx.runs.adopted.log_source import is_adopted, source_of
from rlx.runs.copies.mirror import Mirrored, gathered, kept, refresh
from rlx.runs.judging.composed_config import configurations
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.judging.verdict_cache import verdict_of
from rlx.runs.judging.workers import Workers, workers_of
from rlx.runs.looking.observe import Observation, observe
from rlx.runs.looking.revisit import Revisit
from rlx.runs.looking.state_report import Looked
from rlx.runs.looking.states_and_files import look_and_copy
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.run import RunPaths, RunRef

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index


def look(
    index: Index, refs: Sequence[RunRef], visits: Revisit | None = None
) -> tuple[Mapping[str, Observation], Mapping[str, Mirrored]]:
    """States and files of these runs by id. Each place is asked for both at once: that costs one round trip.

    With `visits`, places that failed to answer a moment ago are left alone.
    """
    copies: dict[str, Mirrored] = {}

    def observing(index: Index, due: Sequence[RunRef]) -> Mapping[str, Observation]:
        def looking(own: Sequence[RunRef]) -> Looked:
            looked, copied = look_and_copy(index, own)
            copies.update(gathered(index, [*due, *(ref for ref in own if ref.node)], copied))
            return looked

        return observe(index, due, looking)

    observations = (visits or Revisit(index)).look(refs, observing)
    copies |= kept(index, [ref for ref in refs if ref.run_id not in copies])
    return observations, copies | refresh(index, _ended_since(refs, observations, copies))


def judge_runs(index: Index, refs: Sequence[RunRef]) -> list[JudgedRun]:
    """The runs in the order given, all that their hosts know of them.

    A host that cannot be asked is no obstacle if the run is over and its evidence is here. Raises RlxError for a run
    of which too little is known: its host's error, or that it has no manifest.
    """
    copies = refresh(index, refs, whole=True)
    asked = [ref for ref in refs if copies[ref.run_id].problem is None]
    observations = observe(index, asked)
    copies |= refresh(index, [*_ended_since(asked, observations, copies), *index.workers(asked)], whole=True)
    copies |= {ref.run_id: _up_to_its_end(copies[ref.run_id], observations[ref.run_id]) for ref in asked}
    states = {ref.run_id: _state_for_sure(ref, copies, observations) for ref in refs}
    parsed, workers = ParsedFiles(index.home), workers_of(index, refs, copies)
    judged = [
        _judge(ref, states[ref.run_id], _manifest_of(ref, copies), copies[ref.run_id], workers[ref.run_id], parsed)
        for ref in refs
    ]
    return [_with_config(run, copies[run.run_id], parsed) for run in judged]


def judge_observed(
    index: Index, refs: Sequence[RunRef], observations: Mapping[str, Observation], copies: Mapping[str, Mirrored]
) -> Mapping[str, JudgedRun]:
    """The runs by id whose state and files are at hand; without those that have no manifest that can be read."""
    judged, parsed, workers = {}, ParsedFiles(index.home), workers_of(index, refs, copies)
    for ref in refs:
        copy = _up_to_its_end(copies[ref.run_id], observations[ref.run_id])
        if (manifest := read_manifest(copy.run_dir)) is not None:
            state = _known_state(observations[ref.run_id], copy)
            judged[ref.run_id] = _judge(ref, state, manifest, copy, workers[ref.run_id], parsed)
    return judged


def _ended_since(
    refs: Sequence[RunRef], observations: Mapping[str, Observation], copies: Mapping[str, Mirrored]
) -> list[RunRef]:
    """Runs that ended while they were copied. Held against the state of now, such a copy would lack its end."""

    def ended(ref: RunRef) -> bool:
        copy = copies[ref.run_id]
        return observations[ref.run_id].exit_code is not None and copy.end is None and copy.problem is None

    return [ref for ref in refs if ended(ref)]


def _up_to_its_end(copy: Mirrored, seen: Observation) -> Mirrored:
    """The end of a run may be known, and its host or its files gone before the evidence of it was copied."""
    if seen.exit_code is None or copy.end is not None:
        return copy
    why = "its host does not answer" if copy.problem else seen.detail or "its files cannot be read"
    return replace(copy, lacks=f"the run has ended, but {why}, and the copy here is from before that")


def _state_for_sure(ref: RunRef, copies: Mapping[str, Mirrored], observations: Mapping[str, Observation]) -> RunState:
    copy = copies[ref.run_id]
    if copy.problem is None:
        return _known_state(observations[ref.run_id], copy)
    if copy.final_state is None:
        raise copy.problem
    return copy.final_state


def _known_state(seen: Observation, copy: Mirrored) -> RunState:
    """What a silent host cannot tell, the copy of a run that is over can."""
    return (copy.final_state if seen.state is RunState.UNREACHABLE else None) or seen.state


def _manifest_of(ref: RunRef, copies: Mapping[str, Mirrored]) -> Manifest:
    manifest = read_manifest(copies[ref.run_id].run_dir)
    if manifest is None:
        raise RlxError(
            f"{ref.host}: {ref.remote_dir} has no manifest.json that this rlx can read",
            "was the run directory removed, or written by another version of rlx?",
        )
    return manifest


def judge_beside(index: Index, control: JudgedRun, run: JudgedRun) -> JudgedRun:
    """The run judged again with its control at hand, which sharpens the second witness; unchanged without one."""
    if run.plan.expectations.noise is None or control.plan.expectations.noise is not None:
        return run
    if control.verdict.status is VerdictStatus.INVALID:
        return run
    parsed = ParsedFiles(index.home)
    verdict = verdict_of(run.run_id, run.plan, run.evidence, run.state, parsed, control.evidence)
    return replace(run, verdict=verdict)


def _judge(
    ref: RunRef, state: RunState, manifest: Manifest, copy: Mirrored, workers: Workers, parsed: ParsedFiles
) -> JudgedRun:
    plan, paths = manifest.plan, RunPaths(copy.run_dir)
    evidence = with_nodes(read_evidence(paths.attempts, parsed), workers.attempts)
    missing = copy.lacks or lacks(copy.run_dir) or manifest.lacks or workers.lacks(state)
    conflicts, settings = conflicts_of(copy.run_dir, evidence, parsed), settings_of(plan.recipe)
    evidence = replace(evidence, missing=missing, conflicts=conflicts, settings=settings)
    return JudgedRun(
        run_id=ref.run_id,
        name=plan.run_name,
        arm=plan.arm,
        seed=plan.seed,
        plan=plan,
        evidence=evidence,
        verdict=verdict_of(ref.run_id, plan, evidence, state, parsed),
        state=state,
        provenance={**_found_at_start(paths), "files": manifest.digests, "logs": _logs_of(copy.run_dir)},
        # Whoever took a run in has not submitted it.
        submitted_by={} if is_adopted(ref) else manifest.submitted_by,
        as_of=copy.as_of or silent_as_of(copy.run_dir),
    )


def _logs_of(run_dir: Path) -> tuple[str, ...]:
    """The digests of the logs that a run was taken in by as they were; none for other runs."""
    source = source_of(run_dir)
    return source.digests if source else ()


def _with_config(run: JudgedRun, copy: Mirrored, parsed: ParsedFiles) -> JudgedRun:
    """Read where runs are compared only: it takes longer than a status should."""
    found = configurations(RunPaths(copy.run_dir).latest, parsed)
    provenance = {**run.provenance, **found}
    seen = settings_of_config(found.get("config") or found.get("printed_config") or {})
    if seen.items() <= run.evidence.settings.items():
        return replace(run, provenance=provenance)
    evidence = replace(run.evidence, settings={**run.evidence.settings, **seen})
    verdict = verdict_of(run.run_id, run.plan, evidence, run.state, parsed)
    return replace(run, provenance=provenance, evidence=evidence, verdict=verdict)


def _found_at_start(paths: RunPaths) -> Mapping[str, Any]:
    """What the latest attempt found on its host; nothing if it ended before it could write that down."""
    try:
        found = json.loads((paths.latest / PROVENANCE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
