"""Read the files of a run into its Evidence, attempt by attempt."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from rlx.errors import RlxError, UsageError
from rlx.evidence.cache.evidence_cache import keep, kept
from rlx.evidence.cache.file_digest import digest_of
from rlx.evidence.cache.kept_sections import Store
from rlx.evidence.cache.parser_state import parse_file
from rlx.evidence.grammars import validation_prefixes
from rlx.evidence.metrics import step_times
from rlx.evidence.reading.console import ConsoleParser, joined
from rlx.evidence.reading.metric_table import MetricTable
from rlx.evidence.reading.metrics_file import read_metrics
from rlx.evidence.reading.process_records import NoiseRecords, read_interventions, read_records, read_weights
from rlx.evidence.reading.timeline import RESUMED, Timeline, contradictions
from rlx.evidence.reading.usage_file import MemoryKills, read_kills
from rlx.evidence.reading.validation_outputs import FileAnswers, compared_answers, read_answers
from rlx.evidence.run_evidence import (
    ROLLOUT,
    VALIDATION,
    Announcement,
    AttemptTime,
    BegunAttempt,
    Disagreement,
    Evidence,
    Intervention,
    LoggedFault,
    NoiseEvent,
    Progress,
    Restart,
    RunTotals,
    WeightRecord,
)
from rlx.local_files import parse_json, read_bytes
from rlx.model import from_jsonable
from rlx.model.attempt_lineage import Lineage
from rlx.model.run_dir import (
    EVENTS_DIR,
    EXIT_FILE,
    LINEAGE_FILE,
    LOG_FILE,
    METRICS_FILE,
    PROVENANCE_FILE,
    STATE_DIR,
    VALIDATION_DIR,
)

T = TypeVar("T")
_MOST_PROVENANCE = 64 << 20
_MOST_EXIT = 1 << 10
_LAST_EPOCH = 1e11
_MOST_BYTES = 100_000


def read_log(path: Path, *, finished: bool = False) -> Evidence:
    """Read the evidence in a bare console log. Raises RlxError where the file cannot be read.

    `finished`: nothing is written to it any more, so a last line without end-of-line counts. Otherwise that line is
    left out: its last number may be truncated.
    """
    try:
        parser = _parse(path, 1, None, finished=finished)
    except OSError as error:
        raise RlxError(f"{path}: cannot be read: {error.strerror}", "give the path of a console log") from error
    return _join([_merge(1, parser, Timeline(METRICS_FILE, 1), NoiseRecords(), {})])


def read_evidence(attempt_dirs: Sequence[Path], store: Store | None = None) -> Evidence:
    """Read the evidence of a run from the folders of all its attempts, in order.

    Read are the log, metrics.jsonl, events/ and validation/ of each. Where console and metrics.jsonl differ, the file
    is used: it is never truncated, interleaved or rounded. A later attempt replaces the earlier ones from its first
    step on: what they logged beyond it is of weights that were discarded. `store`: keeps what was read for the next
    time; it only saves time.
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
    totals: RunTotals
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
    interventions: tuple[Intervention, ...] = ()

    @property
    def resumed_at(self) -> int | None:
        """The step of the checkpoint that it continued from, by its lineage or else its own log; 0: it started anew."""
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
        interventions=read_interventions(folder),
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
    """Combine an attempt from its console, its metrics file, its noise records and its validation outputs."""
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
    total = len(attempts)
    # Attempts before one that started anew by its lineage do not count.
    anew = [place for place, attempt in enumerate(attempts) if attempt.lineage and attempt.lineage.step == 0]
    attempts = attempts[anew[-1] :] if anew else attempts
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
        totals=RunTotals(
            _last(attempt.totals.total_steps for attempt in attempts),
            _last(attempt.totals.train_rows for attempt in attempts),
            _last(attempt.totals.validation_rows for attempt in attempts),
            _last(attempt.totals.logged_every for attempt in attempts),
        ),
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
        interventions=tuple(each for attempt in attempts for each in attempt.interventions),
    )


def _begun(attempt: _Attempt) -> BegunAttempt:
    said = [restart.step for restart in attempt.restarts if restart.reason.startswith(RESUMED)]
    # A resumed run also logs the validation of the step that it continues from, which it did not train.
    prefixes = validation_prefixes()
    trained = (step for step in attempt.steps if any(not key.startswith(prefixes) for key in attempt.steps[step]))
    first = next((step for step in trained if step > 0), None)
    return BegunAttempt(attempt.number, attempt.lineage, said[0] if said else None, first)


def _until(earlier: Sequence[NoiseEvent], later: Sequence[NoiseEvent], at: int) -> list[NoiseEvent]:
    """Keep the noise events up to a checkpoint; validations that the later attempt repeats count from there."""
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
    """Keep the noise events of earlier attempts that the later one, which begins at `first`, does not replace."""
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


def _faults(attempts: Sequence[_Attempt]) -> tuple[LoggedFault, ...]:
    found: dict[str, LoggedFault] = {}
    for fault in (fault for attempt in attempts for fault in attempt.faults):
        found[fault.kind] = joined(found.get(fault.kind), fault)
    return tuple(found.values())


def _last(values: Iterable[T | None]) -> T | None:
    """Return the last value that is not None: a later attempt may have failed before it logged anything."""
    return next((value for value in reversed(list(values)) if value is not None), None)


def attempt_time(folder: Path, number: int, step_seconds: Mapping[int, float]) -> AttemptTime:
    """Measure how long an attempt lasted; its begin and its end were recorded by one clock, that of its host."""
    return AttemptTime(number, _begun_at(folder), _ended_at(folder), len(step_seconds), sum(step_seconds.values()))


def _begun_at(folder: Path) -> float | None:
    try:
        found = parse_json(read_bytes(folder / PROVENANCE_FILE, _MOST_PROVENANCE))
    except (OSError, ValueError):
        return None
    return _epoch(found.get("time")) if isinstance(found, dict) else None


def _ended_at(folder: Path) -> float | None:
    """Read the third word of `CODE WHO EPOCH UPTIME`."""
    try:
        words = read_bytes(folder / STATE_DIR / EXIT_FILE, _MOST_EXIT).split()
        return _epoch(float(words[2]))
    except (OSError, ValueError, IndexError):
        return None


def _epoch(value: Any) -> float | None:
    """Convert a number, or a date with its zone, to seconds since 1970."""
    try:
        date = datetime.fromisoformat(value) if isinstance(value, str) else None
        seconds = date.timestamp() if date and date.tzinfo else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and 0 < seconds < _LAST_EPOCH else None


def read_lineage(attempt_dir: Path, number: int) -> Lineage | None:
    """Read the lineage of attempt `number`; None where there is no readable one of this attempt.

    Host and container can write that file, as all others of a run.
    """
    try:
        found = from_jsonable(Lineage, parse_json(read_bytes(attempt_dir / LINEAGE_FILE, _MOST_BYTES)))
    except (OSError, ValueError, UsageError, RecursionError):
        return None
    is_own = number > 1 and found.attempt == number
    return found if is_own and (found.step is None or 0 <= found.step < 1 << 53) else None


def with_nodes(evidence: Evidence, attempt_dirs: Sequence[Path]) -> Evidence:
    """Add the records of the other nodes of a run to the evidence of its head: each node records its own rollouts."""
    if not attempt_dirs:
        return evidence
    found = [read_records(folder / EVENTS_DIR, number) for number, folder in enumerate(attempt_dirs, start=1)]
    weights = (
        record
        for number, folder in enumerate(attempt_dirs, start=1)
        for record in read_weights(folder / EVENTS_DIR, number)
    )
    kills = (read_kills(folder, number) for number, folder in enumerate(attempt_dirs, start=1))
    others = digest_of(attempt_dirs)
    digest = hashlib.sha256(f"{evidence.digest} {others}".encode()).hexdigest() if evidence.digest and others else ""
    return replace(
        evidence,
        noise=(*evidence.noise, *(event for each in found for event in each.events)),
        noise_settings=(*evidence.noise_settings, *(told for each in found for told in each.settings)),
        probes=(*evidence.probes, *(pair for each in found for pair in each.probes)),
        records=(*evidence.records, *(count for each in found for count in each.counts)),
        weights=(*evidence.weights, *weights),
        memory_kills=(*evidence.memory_kills, *filter(None, kills)),
        digest=digest,
    )
