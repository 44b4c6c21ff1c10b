"""Diagnose runs and logs. A log is searched on its host, so that only relevant lines are sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.evidence import Evidence, Verdict, VerdictStatus, read_log, with_configuration
from rlx.evidence.checks import limits_of_evidence, training_signal
from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.diagnosis import (
    Diagnosis,
    Excerpt,
    Hit,
    diagnose,
    needle_pattern,
    read_excerpt,
    stalls,
)
from rlx.evidence.reading.metrics_file import read_metrics
from rlx.evidence.run_configuration import read_printed_config
from rlx.hosts import transport_for
from rlx.hosts.host_errors import HostError
from rlx.model import LOCAL, Cmd, Expectations, Finding, Place, RunState
from rlx.model.run_dir import LATEST_LINK, LOG_FILE
from rlx.resources import payload_folder
from rlx.runs.logs import split_lines
from rlx.runs.status.judged_snapshots import judged_snapshots
from rlx.runs.status.snapshots import quiet

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index
    from rlx.runs.run import RunRef
    from rlx.runs.status.snapshots import Snapshot

_AT_ONCE = 8
_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
NO_EXPECTATIONS = Expectations(
    total_steps=None,
    validation_steps=(),
    last_step_validated=False,
    validation_items=None,
    validation_samples=1,
    metric="auto",
    noise=None,
    reports_probability_gap=False,
)


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A run or a log with its diagnosis. `log` is the path of the log on its host.

    `row` is None for a log that belongs to no run. `problem`: why the log could not be read.
    """

    log: str
    diagnosis: Diagnosis
    evidence: Evidence
    row: Snapshot | None = None
    problem: RlxError | None = None

    @property
    def invalid_verdict(self) -> Verdict | None:
        """Return the verdict if it is invalid: its first finding is shown before what the log says.

        None for any other verdict, and for a log that belongs to no run.
        """
        verdict = self.row.verdict if self.row is not None else None
        return verdict if verdict is not None and verdict.status is VerdictStatus.INVALID else None


def diagnose_runs(index: Index, refs: Sequence[RunRef]) -> list[Diagnosed]:
    """Diagnose runs, in the order given. A host that does not answer affects its own runs only."""
    rows = judged_snapshots(index, refs)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_diagnose_row, rows))


def causes_of(rows: Sequence[Snapshot]) -> dict[str, Hit | None]:
    """Return why runs failed or were lost, by id; None if the log shows no cause, or cannot be read now."""
    # A host that did not answer a moment ago is not queried again.
    ended = [row for row in rows if row.state in (RunState.FAILED, RunState.LOST) and row.as_of is None]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = zip(ended, pool.map(_diagnose_row, ended), strict=True)
        return {row.ref.run_id: one.diagnosis.cause for row, one in found}


def diagnose_log(path: Path) -> Diagnosed:
    """Diagnose a console log, or a metrics file, without a run. Raises RlxError if it cannot be read, or is no text."""
    evidence = read_log(path, finished=True)
    _refuse_packed(path)
    if not evidence.metrics:
        evidence = replace(evidence, metrics=read_metrics(path).steps)
    is_short = evidence.total_steps is not None and evidence.last_step < evidence.total_steps
    excerpt = _excerpt(LOCAL, str(path.absolute()))
    expectations, _ = with_configuration(NO_EXPECTATIONS, evidence, read_printed_config(path))
    found = diagnose(
        excerpt, None, findings=_about_values(evidence, expectations, RunState.FINISHED), is_short=is_short
    )
    if not (evidence.metrics or _explains(found)):
        refuse_no_text(path, path)
    return Diagnosed(str(path), found, evidence)


def explains_an_end(path: Path) -> bool:
    """Tell whether a log of this machine has a line that a signature matches, or an exception that ended it."""
    return _explains(diagnose_log(path).diagnosis)


def _explains(found: Diagnosis) -> bool:
    return bool(found.cause or found.symptoms or found.warnings)


def _refuse_packed(path: Path) -> None:
    """Refuse a packed file, which has no readable line and would look like a clean log."""
    with path.open("rb") as log:
        if log.read(len(_GZIP)) == _GZIP:
            raise RlxError(f"{path} is packed", f"zcat {path} >unpacked.log; rlx diagnose unpacked.log")


def refuse_no_text(path: Path, log: Path) -> None:
    """Raise RlxError, by the name of `path`, if the content of `log` is no text."""
    with log.open("rb") as copy:
        head = copy.read(1 << 16)
    refuse_utf16(path, head)
    if b"\0" in head or len(head.decode("utf-8", "ignore").encode()) < 0.9 * len(head):
        raise RlxError(f"{path} is no text", "name a console log; unpack it first if it is an archive")


def refuse_utf16(path: Path, head: bytes) -> None:
    if head.startswith(_UTF16):
        raise RlxError(f"{path} is text in UTF-16", f"iconv -f UTF-16 -t UTF-8 {path} >utf8.log, and name that")


def _diagnose_row(row: Snapshot) -> Diagnosed:
    log = f"{row.ref.remote_dir}/{LATEST_LINK}/{LOG_FILE}"
    try:
        excerpt = _excerpt(row.ref.place, log)
    except RlxError as problem:
        return Diagnosed(log, Diagnosis(), row.evidence, row, problem)
    seen = row.observation
    diagnosis = diagnose(excerpt, row.state, seen.exit_code, _findings(row), kills=row.evidence.memory_kills)
    return Diagnosed(log, diagnosis, row.evidence, row)


def _excerpt(place: Place, log: str) -> Excerpt:
    with transport_for(place).stream(Cmd("sh", "-c", _script(), "rlx-diagnose", log, needle_pattern())) as chunks:
        excerpt = read_excerpt(split_lines(chunks))
    if excerpt.lacks:
        raise HostError(f"{place.host} has no {excerpt.lacks}, so its logs cannot be searched there", "install it")
    return excerpt


def _findings(row: Snapshot) -> Iterator[Finding]:
    if row.expectations is None:
        return  # nothing could be read
    if row.state in (RunState.STARTING, RunState.RUNNING, RunState.STALLED):
        # What earlier attempts logged does not concern this start.
        so_far = Evidence() if row.state is RunState.STARTING else row.evidence
        yield from stalls(so_far, row.expectations, quiet(row.observation))
    yield from _about_values(row.evidence, row.expectations, row.state)


def _about_values(evidence: Evidence, expectations: Expectations, state: RunState) -> Iterator[Finding]:
    """Check the metrics by the rules of the verdict."""
    given = CheckInput(evidence, expectations, state)
    for check in (training_signal.check, limits_of_evidence.check_grammar):
        yield from (each.finding for each in check(given))


@cache
def _script() -> str:
    return (payload_folder() / "diagnose.sh").read_text(encoding="utf-8")
