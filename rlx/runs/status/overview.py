"""One row a run: where it is, how fast, what it measured, and what may be believed of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError
from rlx.evidence import Evidence, JudgedRun, Verdict, core_metric, series, training_steps
from rlx.evidence.reading.usage_file import Sample, last_sample
from rlx.evidence.step_times import latest_seconds, step_times, usual_seconds
from rlx.evidence.verdict import without_evidence
from rlx.model import RunState
from rlx.runs.index.labels import NO_LABEL, Label, Labels
from rlx.runs.judging.judge_runs import judge_sights, unjudged
from rlx.runs.run import RunPaths
from rlx.runs.status.observation import Observation
from rlx.runs.status.snapshots import Files, Sight, look

if TYPE_CHECKING:
    from rlx.model import Expectations, Registration
    from rlx.runs.index.run_index import Index
    from rlx.runs.index.tombstones import Tombstone
    from rlx.runs.run import RunRef
    from rlx.runs.status.snapshots import Revisit

_LONGEST_S = 1e10


@dataclass(frozen=True, slots=True)
class Overview:
    """`steps_done` of `steps_total`; times in seconds; `validation` is the last (step, value) of `metric`.

    `steps_total` is what the log says, else what the plan promised. `container` is the name or id in the plan.
    `submitted_by`: user, machine and version of rlx.
    `as_of`: when the evidence was read on the run's host, in seconds since 1970; None: now. `label`: what a person said
    of the run on this machine. `registration`: the experiment that its manifest names. `removed`: who took it out of
    names, and when. `sample`: what its devices, its processes and its host last did, while it goes on. `devices`: how
    many its plan leases, `device_list` which, if it names them. `moved_from`: hosts that it was withdrawn from before
    it had begun. `retry`: what its recipe says about further attempts.
    """

    ref: RunRef
    observation: Observation
    evidence: Evidence
    verdict: Verdict
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
    label: Label = NO_LABEL
    registration: Registration | None = None
    removed: Tombstone | None = None
    sample: Sample | None = None
    devices: int = 1
    device_list: tuple[int, ...] = ()
    moved_from: tuple[str, ...] = ()
    retry: Any = None

    @property
    def state(self) -> RunState:
        return self.observation.state

    @property
    def sample_age(self) -> float | None:
        """Seconds since the sample was taken, by the clock of its host; None where that was not asked just now."""
        seen = self.observation
        if self.sample is None or seen.started_epoch is None or seen.seconds_since_start is None or self.as_of:
            return None
        return max(0.0, seen.started_epoch + seen.seconds_since_start - self.sample.at)


def overview(index: Index, refs: Sequence[RunRef], visits: Revisit | None = None) -> list[Overview]:
    """The rows of these runs, in their order; one round trip, to all their places at once.

    With `visits`, places that failed to answer a moment ago are left alone.
    A run that somebody removed, or whose manifest is damaged, has a row without numbers: the others are still there.
    """
    sights = look(index, refs, Files.NEW, visits)
    judged = judge_sights(index, sights)
    labels = _labels(index.home, [sight.ref.head_id for sight in sights.values()])
    removed = index.tombstones()
    rows = [_row_alone(sight, judged.get(run_id)) for run_id, sight in sights.items()]
    return [
        replace(row, label=labels.get(row.ref.head_id, NO_LABEL), removed=removed.get(row.ref.head_id)) for row in rows
    ]


def _labels(home: Path, run_ids: Sequence[str]) -> Mapping[str, Label]:
    """Read tags and notes; a damaged file costs no row, and each run says in place of its note what is wrong."""
    try:
        return Labels(home).of(run_ids)
    except RlxError as error:
        return dict.fromkeys(run_ids, Label(note=f"tags and notes cannot be read: {error.message}"))


def _row_alone(sight: Sight, judged: JudgedRun | RlxError | None) -> Overview:
    """One bad run costs its own row, and no other."""
    if judged is None or sight.ref.node:
        return _row_without_verdict(sight)
    if isinstance(judged, RlxError):
        return _row_without_verdict(sight, judged.message)
    try:
        return _row(sight, judged)
    except (RlxError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - evidence is read where it is asked for, and comes from others
        return _row_without_verdict(sight, unjudged(sight.ref, error).message)


def _row_without_verdict(sight: Sight, problem: str = "") -> Overview:
    ref, why = sight.ref, problem or sight.observation.detail or sight.copy.lacks or _WITHOUT_MANIFEST
    if ref.node:
        why = f"node {ref.node} of {ref.head_id}, whose verdict is about all of it"
    return Overview(ref, sight.observation, Evidence(), without_evidence(why))


_WITHOUT_MANIFEST = "its manifest.json is gone, damaged or of another rlx, so nothing says what it promised"


def _row(sight: Sight, judged: JudgedRun) -> Overview:
    evidence = judged.evidence
    done = max(training_steps(evidence), default=0)
    total = evidence.total_steps or judged.plan.expectations.total_steps
    times = [*step_times(evidence).values()]
    pace = latest_seconds(times)
    metric = core_metric(evidence, judged.plan.expectations)
    values = series(evidence, metric) if metric else {}
    left = (total - done) * pace if pace is not None and total is not None and not sight.state.is_terminal else None
    return Overview(
        ref=sight.ref,
        observation=sight.observation,
        evidence=evidence,
        verdict=judged.verdict,
        steps_done=done,
        steps_total=total,
        step_seconds=usual_seconds(times),
        seconds_left=left if left is not None and left < _LONGEST_S else None,
        metric=metric,
        validation=(max(values), values[max(values)]) if values else None,
        container=judged.plan.site.container,
        expectations=judged.plan.expectations,
        submitted_by=judged.submitted_by,
        as_of=judged.as_of,
        registration=judged.plan.registration,
        sample=None if sight.state.is_terminal else last_sample(RunPaths(sight.copy.run_dir).latest),
        devices=judged.plan.devices,
        device_list=judged.plan.device_list,
        moved_from=sight.manifest.moved if sight.manifest else (),
        retry=judged.plan.recipe.get("retry"),
    )
