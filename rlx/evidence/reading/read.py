"""Read the files of a run into its Evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from rlx.errors import RlxError
from rlx.evidence.cache.evidence_cache import keep, kept
from rlx.evidence.cache.file_digest import digest_of
from rlx.evidence.cache.parser_state import parse_file
from rlx.evidence.cache.sections import Store
from rlx.evidence.grammars import validation_prefixes
from rlx.evidence.reading.attempt_times import attempt_time
from rlx.evidence.reading.console import ConsoleParser, joined
from rlx.evidence.reading.kept_answers import FileAnswers, compared_answers, read_answers
from rlx.evidence.reading.lineages import read_lineage
from rlx.evidence.reading.metric_table import MetricTable
from rlx.evidence.reading.noise_records import NoiseRecords, read_records
from rlx.evidence.reading.run_files import read_metrics
from rlx.evidence.reading.timeline import RESUMED, Timeline, contradictions
from rlx.evidence.reading.usage_file import MemoryKills, read_kills
from rlx.evidence.reading.weight_records import read_weights
from rlx.evidence.run_evidence import (
    ROLLOUT,
    VALIDATION,
    Announcement,
    AttemptTime,
    BegunAttempt,
    Disagreement,
    Evidence,
    LoggedFault,
    NoiseEvent,
    Progress,
    Restart,
    Totals,
    WeightRecord,
)
from rlx.evidence.step_times import step_times
from rlx.model.attempt_lineage import Lineage
from rlx.model.run_dir import EVENTS_DIR, EXIT_FILE, LOG_FILE, METRICS_FILE, STATE_DIR, VALIDATION_DIR

T = TypeVar("T")


def read_log(path: Path, *, finished: bool = False) -> Evidence:
    """The evidence in a bare console log. Raises RlxError where the file cannot be read.

    `finished`: nothing writes to it any more, so a last line without end-of-line counts. Otherwise that line is left
    out: its last number may be half written.
    """
    try:
        parser = _parse(path, 1, None, finished=finished)
    except OSError as error:
        raise RlxError(f"{path}: cannot be read: {error.strerror}", "give the path of a console log") from error
    return _join([_merge(1, parser, Timeline(METRICS_FILE, 1), NoiseRecords(), {})])


def read_evidence(attempt_dirs: Sequence[Path], store: Store | None = None) -> Evidence:
    """The evidence of a run from all its attempts, in order: log, metrics.jsonl, events/ and
    validation/ of each.

    Where console and metrics.jsonl differ, the file wins: it is never torn, interleaved or rounded. A later attempt
    wins from its first step on: what an earlier one logged beyond it belongs to weights that were thrown away.
    `store`: keeps what was read for the next time; it changes nothing but the time this takes.
    """
    digest = digest_of(attempt_dirs) if store else ""
    if store is None or not digest:
        return _read(attempt_dirs, store)
    name = hashlib.sha256("\0".join(str(folder.absolute()) for folder in attempt_dirs).encode()).hexdigest()[:32]
    again = cache(lambda: _read_and_keep(attempt_dirs, name, digest, store))
    return kept(name, digest, store, again) or again()


def _read_and_keep(attempt_dirs: Sequence[Path], name: str, digest: str, store: Store) -> Evidence:
    evidence = _read(attempt_dirs, store)
    if digest_of(attempt_dirs) != digest:
        return evidence  # written while it was read
    keep(evidence, name, digest, store)
    # From the file, which the system may take out of memory again, where many runs are read at once.
    return kept(name, digest, store, lambda: _read(attempt_dirs, store)) or evidence


def _read(attempt_dirs: Sequence[Path], states: Store | None) -> Evidence:
    return _join([_read_attempt(number, folder, states) for number, folder in enumerate(attempt_dirs, start=1)])


@dataclass(frozen=True, slots=True)
class _Attempt:
    number: int
    steps: MetricTable
    noise: list[NoiseEvent]
    records: NoiseRecords
    totals: Totals
    progress: Progress | None
    unproven: str
    restarts: list[Restart]
    disagreements: list[Disagreement]
    answers: Mapping[int, FileAnswers]
    announced: tuple[Announcement, ...]
    has_hole: bool
    kills: MemoryKills | None = None
    lineage: Lineage | None = None
    weights: tuple[WeightRecord, ...] = ()
    faults: tuple[LoggedFault, ...] = ()
    time: AttemptTime | None = None

    @property
    def resumed_at(self) -> int | None:
        """The step of the checkpoint that it went on from, by its lineage or else its own log; 0: it began anew."""
        if self.lineage is not None and self.lineage.step is not None:
            return self.lineage.step
        said = [restart.step for restart in self.restarts if restart.reason.startswith(RESUMED)]
        return said[0] if self.number > 1 and said else None


def _read_attempt(number: int, folder: Path, states: Store | None) -> _Attempt:
    finished = (folder / STATE_DIR / EXIT_FILE).exists()
    try:
        parser = _parse(folder / LOG_FILE, number, states, finished=finished)
    except OSError:  # it ended before it could write, or has not begun
        parser = ConsoleParser(number)
    metrics = read_metrics(folder / METRICS_FILE, number, states, grows=not finished)
    answers = read_answers(folder / VALIDATION_DIR, states, grows=not finished)
    read = _merge(number, parser, metrics, read_records(folder / EVENTS_DIR, number), answers)
    return replace(
        read,
        kills=read_kills(folder, number),
        lineage=read_lineage(folder, number),
        weights=read_weights(folder / EVENTS_DIR, number),
        time=attempt_time(folder, number, step_times(Evidence(metrics=read.steps))) if finished else None,
    )


def _parse(path: Path, attempt: int, states: Store | None, *, finished: bool) -> ConsoleParser:
    parser = parse_file(path, lambda: ConsoleParser(attempt), states, grows=not finished)
    if finished:
        parser.finish()
    return parser


def _merge(
    number: int, parser: ConsoleParser, file: Timeline, records: NoiseRecords, answers: Mapping[int, FileAnswers]
) -> _Attempt:
    """One attempt from its console, its metrics file, its noise events and its validation outputs."""
    console = parser.timeline
    # The payload prints a line for each event it writes; the event says more.
    printed = [event for event in parser.noise if event.step is not None or not records.events]
    return _Attempt(
        number=number,
        steps=console.steps.updated(file.steps),
        noise=[*printed, *records.events],
        records=records,
        totals=parser.totals,
        progress=parser.progress,
        unproven=parser.unproven,
        restarts=console.restarts or file.restarts,
        disagreements=[*console.disagreements, *file.disagreements, *contradictions(console, file)],
        answers=answers,
        announced=tuple(parser.noise_lines.announced),
        has_hole=parser.has_hole,
        faults=parser.faults,
    )


def _join(attempts: Sequence[_Attempt]) -> Evidence:
    total, attempts = len(attempts), _counting(attempts)
    steps = MetricTable()
    noise: list[NoiseEvent] = []
    answers: dict[int, FileAnswers] = {}
    made: list[tuple[int, FileAnswers]] = []
    for attempt in attempts:
        if (at := attempt.resumed_at) is not None:
            steps, noise = steps.until(at), _until(noise, attempt.noise, at)
            answers = {step: found for step, found in answers.items() if step <= at}
        elif (first := _first_step(attempt)) is not None:
            steps, noise = steps.until(first), _before(noise, attempt.noise, first)
        answers |= attempt.answers
        made += sorted(attempt.answers.items(), key=itemgetter(0))
        steps = steps.updated(attempt.steps)
        noise += attempt.noise
    return Evidence(
        metrics=steps,
        noise=tuple(noise),
        totals=_last_totals(attempts),
        progress=_last(attempt.progress for attempt in attempts),
        disagreements=tuple(found for attempt in attempts for found in attempt.disagreements),
        restarts=tuple(restart for attempt in attempts for restart in _restarts(attempt)),
        attempts=total,
        answers={step: found.kept.answers for step, found in answers.items()},
        outputs={step: found for step, found in compared_answers(made).items() if step in answers},
        announced=tuple(dict.fromkeys(said for attempt in attempts for said in attempt.announced)),
        has_hole=any(attempt.has_hole for attempt in attempts),
        unproven=next((attempt.unproven for attempt in attempts if attempt.unproven), ""),
        noise_settings=tuple(told for attempt in attempts for told in attempt.records.settings),
        probes=tuple(pair for attempt in attempts for pair in attempt.records.probes),
        records=tuple(count for attempt in attempts for count in attempt.records.counts),
        weights=tuple(record for attempt in attempts for record in attempt.weights),
        memory_kills=tuple(attempt.kills for attempt in attempts if attempt.kills),
        begun=tuple(_begun(attempt) for attempt in attempts if attempt.number > 1),
        times=tuple(attempt.time for attempt in attempts if attempt.time),
        faults=_faults(attempts),
    )


def _counting(attempts: Sequence[_Attempt]) -> Sequence[_Attempt]:
    """The attempts that count: none before one that began anew by its lineage."""
    anew = [place for place, attempt in enumerate(attempts) if attempt.lineage and attempt.lineage.step == 0]
    return attempts[anew[-1] :] if anew else attempts


def _begun(attempt: _Attempt) -> BegunAttempt:
    said = [restart.step for restart in attempt.restarts if restart.reason.startswith(RESUMED)]
    first = next((step for step in sorted(attempt.steps) if step > 0 and _is_trained(attempt.steps, step)), None)
    return BegunAttempt(attempt.number, attempt.lineage, said[0] if said else None, first)


def _is_trained(steps: MetricTable, step: int) -> bool:
    """A resumed run also logs a line with nothing but a validation, of the step that it goes on from."""
    prefixes = validation_prefixes()
    return any(not key.startswith(prefixes) for key in steps[step])


def _until(earlier: Sequence[NoiseEvent], later: Sequence[NoiseEvent], at: int) -> list[NoiseEvent]:
    """The noise events up to a checkpoint. What the later attempt validates again counts from there."""
    again = any(event.phase == VALIDATION and event.step == at for event in later)
    last = {ROLLOUT: at, VALIDATION: at - again}
    return [event for event in earlier if event.step is None or event.step <= last[event.phase]]


def _first_step(attempt: _Attempt) -> int | None:
    """Find where an attempt begins. Its events come last: weights may be synced before a checkpoint is loaded."""
    if attempt.steps:
        return min(attempt.steps)
    if attempt.restarts:
        return attempt.restarts[-1].step
    return min((event.step for event in attempt.noise if event.step is not None), default=None)


def _before(earlier: Sequence[NoiseEvent], later: Sequence[NoiseEvent], first: int) -> list[NoiseEvent]:
    """The noise events of earlier attempts that the later one, which begins at `first`, does not replace."""
    begins = {phase: _first_of(phase, later, first) for phase in (ROLLOUT, VALIDATION)}
    return [event for event in earlier if event.step is None or event.step < begins[event.phase]]


def _first_of(phase: str, events: Sequence[NoiseEvent], begin: int) -> int:
    steps = (event.step for event in events if event.phase == phase and event.step is not None)
    return min((step for step in steps if step >= begin), default=begin + 1)


def _restarts(attempt: _Attempt) -> list[Restart]:
    first = _first_step(attempt)
    if attempt.lineage is not None:
        return [Restart(attempt.number, attempt.resumed_at or 0, attempt.lineage.sentence)]
    if attempt.number == 1 or attempt.restarts or first is None:
        return attempt.restarts
    return [Restart(attempt.number, first, f"attempt {attempt.number} began at step {first}")]


def _last_totals(attempts: Sequence[_Attempt]) -> Totals:
    return Totals(
        _last(attempt.totals.total_steps for attempt in attempts),
        _last(attempt.totals.train_rows for attempt in attempts),
        _last(attempt.totals.validation_rows for attempt in attempts),
    )


def _faults(attempts: Sequence[_Attempt]) -> tuple[LoggedFault, ...]:
    found: dict[str, LoggedFault] = {}
    for fault in (fault for attempt in attempts for fault in attempt.faults):
        found[fault.kind] = joined(found.get(fault.kind), fault)
    return tuple(found.values())


def _last(values: Iterable[T | None]) -> T | None:
    """The last value that is one: a later attempt may have died before it said anything."""
    return next((value for value in reversed(list(values)) if value is not None), None)
