"""Find in an excerpt of a log what caused the end of a run, and what only followed from it.

Where the log shows no cause, the exit code is interpreted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rlx.evidence.diagnosis.excerpt import Excerpt, LogLine, Raised, is_frame, raised
from rlx.evidence.diagnosis.signatures import Signature, SignatureKind, signatures
from rlx.evidence.reading.usage_file import GROUP, HOST, MemoryKills
from rlx.findings import finding_row
from rlx.model import Finding, RunState, Severity

UNKNOWN = "RLX889"
_DRIVER = "Error executing job with overrides"
# Lines that processes may still write once the exception is out that ends them all.
_AFTERMATH = 200
_SIGNALS = {
    134: ("SIGABRT", "a library called abort()", "read the last lines of the log: they name the library"),
    135: (
        "SIGBUS",
        "a bus error: /dev/shm is full, or a mapped file was truncated",
        "start the container with --ipc=host or a larger --shm-size",
    ),
    137: (
        "SIGKILL",
        "memory was full, the container was stopped, or someone used kill -9; the process could not log it",
        "look for the cause on the host: dmesg | grep -i -e oom -e kill; for a container, OOMKilled in docker inspect",
    ),
    139: (
        "SIGSEGV",
        "a compiled library crashed",
        "check its version with rlx doctor; set PYTHONFAULTHANDLER=1 in env to see where",
    ),
    143: ("SIGTERM", "something asked it to end", "find out what: rlx stop, a scheduler, or a shutdown of the host"),
}
_KILLED = 137
_MORE_MEMORY = (
    "find the processes on the host: dmesg | grep -i -e oom -e kill; then give the container more memory, or use fewer "
    "parallel runs, fewer workers or smaller batches"
)
_WHOSE = {
    GROUP: "according to the counter of its cgroup (its container, or the session that started it), which "
    "includes other programs and other runs",
    HOST: "according to the counter of its host, which includes all processes",
}
_PROGRAMS = {
    126: (
        "a program could not be executed",
        "check that the interpreter and the entry point exist and may be executed",
    ),
    127: ("a program was not found", "check backend.python and `setup` of the host"),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """A known line, the first of `times`. `line` counts from 1; `text` is as printed.

    `exception` and `at`: what was raised there and where, deepest in the user's own code; empty if nothing was.
    """

    id: str
    kind: SignatureKind
    name: str
    meaning: str
    fix: str
    source: str
    line: int
    text: str
    times: int = 1
    exception: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The causes that a log shows for the end of its run.

    `cause`: the first primary cause by time. Where the log has none, the best that there is: an exception that no
    signature matches, then a warning, then a symptom without a cause. None for a run that nothing ended, or whose log
    says nothing. `symptoms`: what followed from it. `warnings`: what happened before. `findings`: what exit code, clock
    and metrics add. `last`: the last lines of the log.
    """

    cause: Hit | None = None
    symptoms: tuple[Hit, ...] = ()
    warnings: tuple[Hit, ...] = ()
    findings: tuple[Finding, ...] = ()
    last: tuple[str, ...] = ()
    log_bytes: int | None = None


def diagnose(
    excerpt: Excerpt,
    state: RunState | None,
    exit_code: int | None = None,
    findings: Iterable[Finding] = (),
    *,
    is_short: bool = False,
    kills: Sequence[MemoryKills] = (),
) -> Diagnosis:
    """Explain a log. `state` None: it is unknown whether the run has ended; the log may still show that it failed.

    `exit_code`: a shell's. `findings`: what metrics and clocks show. `is_short`: the log has fewer steps than it
    announced. `kills`: how many processes the kernel killed because memory ran out.
    """
    findings = [*memory_kills(kills, state), *findings]
    tracebacks = list(raised(excerpt.lines))
    rows = _rows(excerpt, tracebacks)
    hits = _hits(excerpt, tracebacks, rows)
    unknown = _unknown(hits, tracebacks, excerpt.lines, {line.number for line in rows})
    if _goes_well(state, excerpt, hits, unknown, is_short):
        return _diagnosis(None, hits, findings, excerpt)
    cause = _cause(hits, unknown, state)
    hits += _ended_by(unknown, cause, excerpt.lines)
    silent = state is not RunState.STOPPED and (cause is None or cause.kind is not SignatureKind.CAUSE)
    return _diagnosis(cause, hits, [*(ending(exit_code, kills) if silent else ()), *findings], excerpt)


def _goes_well(
    state: RunState | None, excerpt: Excerpt, hits: Sequence[Hit], unknown: Sequence[Raised], is_short: bool
) -> bool:
    """Tell whether there is no end to explain: the run finished, or continues as far as is visible.

    For a run in progress and a bare log, the last lines decide: an error there means that it ended. An unknown
    exception was caught, as long as the run continues. A bare log that stops early may lack its end.
    """
    if state is not None and state.is_terminal:
        return state is RunState.FINISHED
    near_end, end = (excerpt.last[0].number, excerpt.last[-1].number) if excerpt.last else (math.inf, math.inf)
    if state is None and is_short:
        near_end = min(near_end, end - _AFTERMATH)
    broken = any(hit.kind is not SignatureKind.WARNING and hit.line >= near_end for hit in hits)
    uncaught = state is None and any(error.line >= near_end for error in unknown)
    return _driver_line(excerpt.lines) is None and not broken and not uncaught


def _diagnosis(cause: Hit | None, hits: Sequence[Hit], findings: Iterable[Finding], excerpt: Excerpt) -> Diagnosis:
    others = [hit for hit in hits if cause is None or hit.id != cause.id]
    followed = [hit for hit in others if cause is not None and hit.kind is not SignatureKind.WARNING]
    return Diagnosis(
        cause,
        tuple(followed),
        tuple(hit for hit in others if hit not in followed),
        tuple(findings),
        tuple(line.raw for line in excerpt.last),
        excerpt.size,
    )


def _rows(excerpt: Excerpt, tracebacks: Sequence[Raised]) -> dict[LogLine, Signature]:
    """Return the signature of each line that matches one, by time."""
    # The line after a frame is the code that raised: it may contain the message before it is filled in.
    frames = {(line.number, line.speaker) for line in excerpt.lines if is_frame(line)}
    found = {}
    for line in excerpt.lines:
        is_code = line.text.startswith(" ") and (line.number - 1, line.speaker) in frames
        if line.matched and not is_code and (row := _row(line, tracebacks)):
            found[line] = row
    return found


def _row(line: LogLine, tracebacks: Sequence[Raised]) -> Signature | None:
    for row in signatures():
        if row.knows(line.text) and (not row.wants_traceback(line.text) or _stands_within(row, line, tracebacks)):
            return row
    return None


def _stands_within(row: Signature, line: LogLine, tracebacks: Sequence[Raised]) -> bool:
    """Tell whether the traceback goes through what the row requires, and from there into no other code of the user."""
    error = _around(line, tracebacks)
    if error is None or row.within is None:
        return False
    through = [row.within.search(str(frame)) is not None for frame in error.frames]
    below = error.frames[len(through) - through[::-1].index(True) :] if any(through) else ()
    return any(through) and not any(frame.is_own for frame in below)


def _hits(excerpt: Excerpt, tracebacks: Sequence[Raised], rows: Mapping[LogLine, Signature]) -> list[Hit]:
    """Return the first line of each signature, by time, with the number of its lines."""
    found: dict[str, Hit] = {}
    for line, row in rows.items():
        hit = found.get(row.id) or replace(_hit(row, line, tracebacks), times=int(line.is_last))
        times = 0 if line.is_last else 1 + excerpt.more.get(line.number, 0)
        found[row.id] = replace(hit, times=hit.times + times)
    return list(found.values())


def _around(line: LogLine, tracebacks: Sequence[Raised]) -> Raised | None:
    """Find the exception that a line is part of; for a line in which Ray passes an exception on, that exception."""
    said = [error for error in tracebacks if error.speaker == line.speaker and error.line >= line.number]
    if not said or said[0].begin > line.number:
        return None
    return next((error for error in said if not error.hands_on), None)


def _hit(row: Signature, line: LogLine, tracebacks: Sequence[Raised]) -> Hit:
    error = _around(line, tracebacks)
    exception, at = str(error) if error else "", str(error.at) if error and error.at else ""
    return _known_hit(row.id, row.kind, line.number, line.raw, exception, at)


def _cause(hits: Sequence[Hit], unknown: Sequence[Raised], state: RunState | None) -> Hit | None:
    known = [hit for hit in hits if hit.kind is SignatureKind.CAUSE]
    if known or state is RunState.STOPPED:
        return next(iter(known), None)
    if unknown:
        return _unknown_hit(_uncaught(unknown))
    return min(hits, key=lambda hit: (hit.kind is not SignatureKind.WARNING, hit.line), default=None)


def _uncaught(unknown: Sequence[Raised]) -> Raised:
    """Choose the uncaught exception: one raised while another was handled, because that other one was expected."""
    return next((error for error in unknown if error.in_handling), unknown[0])


def _ended_by(unknown: Sequence[Raised], cause: Hit | None, lines: Sequence[LogLine]) -> list[Hit]:
    """Return the exception that ended the driver, where an earlier line of the log is the cause: both are shown."""
    driver = _driver_line(lines)
    if driver is None or not unknown or cause is None or cause.kind is not SignatureKind.CAUSE or cause.id == UNKNOWN:
        return []
    return [_unknown_hit(_uncaught(unknown))] if unknown[0].line > driver else []


def _unknown(
    hits: Sequence[Hit], tracebacks: Sequence[Raised], lines: Sequence[LogLine], explained: set[int]
) -> list[Raised]:
    """List exceptions without a signature: those that ended the driver, innermost first, else the last of any process.

    `explained`: the lines that a signature matches.
    """
    known = {(hit.exception.partition(":")[0], hit.at) for hit in hits if hit.exception}
    errors = [
        error for error in tracebacks if not error.hands_on and _id(error) not in known and error.line not in explained
    ]
    driver = _driver_line(lines)
    return [error for error in errors if driver is not None and error.line > driver] or _together(errors)


def _together(errors: Sequence[Raised]) -> list[Raised]:
    """Keep those that were raised at about the time of the last one: earlier ones were caught."""
    apart = [at for at in range(1, len(errors)) if errors[at].line - errors[at - 1].line > _AFTERMATH]
    return list(errors[apart[-1] if apart else 0 :])


def _driver_line(lines: Sequence[LogLine]) -> int | None:
    """Find where Hydra reports that its program failed."""
    return next((line.number for line in lines if line.text.startswith(_DRIVER)), None)


def _id(error: Raised) -> tuple[str, str]:
    """Identify an exception without its message, which may contain text that differs each time."""
    return str(error).partition(":")[0], str(error.at) if error.at else ""


def _unknown_hit(error: Raised) -> Hit:
    at = str(error.at) if error.at else ""
    return _known_hit(UNKNOWN, SignatureKind.CAUSE, error.line, error.text, str(error), at)


def _known_hit(id: str, kind: SignatureKind, line: int, text: str, exception: str, at: str) -> Hit:
    row = finding_row(id)
    return Hit(id, kind, row.en.title, row.en.reason, row.en.fix, row.source, line, text, exception=exception, at=at)


def ending(exit_code: int | None, kills: Sequence[MemoryKills] = ()) -> Iterator[Finding]:
    """Interpret a shell's exit code for a log without a cause. What the kernel has counted is reported instead."""
    if exit_code == _KILLED and kills:
        return
    if exit_code in _SIGNALS:
        name, meaning, fix = _SIGNALS[exit_code]
        yield Finding("RLX888", Severity.ERROR, f"{name} ended the run (exit code {exit_code}): {meaning}", fix)
    elif exit_code in _PROGRAMS:
        meaning, fix = _PROGRAMS[exit_code]
        yield Finding("RLX888", Severity.ERROR, f"exit code {exit_code}: {meaning}", fix)


def memory_kills(kills: Sequence[MemoryKills], state: RunState | None) -> Iterator[Finding]:
    """Report that the kernel killed processes because memory ran out, in a run that has not ended well.

    The kernel counts them and does not name them.
    """
    if kills and state not in (RunState.FINISHED, RunState.STOPPED):
        severity = Severity.ERROR if state in (RunState.FAILED, RunState.LOST) else Severity.WARNING
        yield Finding("RLX888", severity, f"{kills_words(kills)}, {_WHOSE[kills[-1].scope]}", _MORE_MEMORY)


def kills_words(kills: Sequence[MemoryKills]) -> str:
    """Write `the kernel killed 2 processes during the run because memory ran out`."""
    count = sum(each.count for each in kills)
    return f"the kernel killed {count} process{'es' * (count > 1)} during the run because memory ran out"
