"""A diagnosis as text, as Markdown for an issue, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlx.cli.frame.streams import shortened
from rlx.evidence.checks.training_signal import NOT_FINITE
from rlx.findings import Language, finding_ids, finding_row, reader_language
from rlx.markdown import block, code, prose
from rlx.model import Finding, RunState, Severity, fix_text, message_text
from rlx.terminal_text import printable

if TYPE_CHECKING:
    from rlx.evidence.diagnosis import Diagnosis, Hit
    from rlx.runs.judging.diagnose_runs import Diagnosed

_LINE_CHARACTERS = 300
_LAST_LINES = 8
_CHINESE = {"means": "含义", "fix": "修复", "source": "来源"}
# What is shown if no primary cause was found, with a remark.
UNSURE = {"symptom": ": a symptom, its cause is not in the log", "warning": ": the likely cause"}


def text_lines(diagnosed: Diagnosed) -> Iterator[str]:
    """Yield the title, findings before the cause, the cause, what followed, other findings and the last lines."""
    diagnosis = diagnosed.diagnosis
    before, after = parted_findings(diagnosed)
    yield title_of(diagnosed)
    for finding in before:
        yield from _finding(finding)
    if diagnosed.problem is not None:
        return
    if diagnosis.cause is not None:
        yield from _whole(diagnosis.cause, UNSURE.get(diagnosis.cause.kind, ""))
    else:
        yield from without_cause(diagnosed)
    yield from _section("with it", diagnosis.symptoms)
    yield from _section("on the way", diagnosis.warnings, whole=diagnosis.cause is None)
    for finding in after:
        yield from _finding(finding)
    if is_unexplained(diagnosed) and diagnosis.last:
        yield "  its last lines"
        yield from (f"    {shortened(text, _LINE_CHARACTERS)}" for text in diagnosis.last[-_LAST_LINES:])


def title_of(diagnosed: Diagnosed) -> str:
    """Return `ID: failed (exit code 1), step 7 of 20`."""
    row = diagnosed.row
    steps = _steps(diagnosed)
    if row is None:
        return f"{diagnosed.log}: {steps}"
    code = f" (exit code {row.observation.exit_code})" if row.observation.exit_code else ""
    removed = "; hidden" if row.removed else ""
    return f"{row.ref.run_id}: {row.state.value}{code}, {steps}{removed}"


def parted_findings(diagnosed: Diagnosed) -> tuple[Sequence[Finding], Sequence[Finding]]:
    """Return the findings that go before the cause, and the others.

    Before it go the first finding of an invalid verdict, with the sentence that names all that weigh as much, and
    metrics that were not finite to the end or too often: the exception that ended the run may follow from them.
    """
    verdict = diagnosed.invalid_verdict
    said = [] if verdict is None else [verdict.findings[0]]
    others = [finding for finding in diagnosed.diagnosis.findings if finding not in said]
    lost = [finding for finding in others if finding.id == NOT_FINITE and finding.severity is Severity.ERROR]
    # The id of the finding stands before the sentence already.
    first = [replace(each, message=verdict.sentence.removesuffix(f" ({each.id})")) for each in said] if verdict else []
    return [*first, *lost], [finding for finding in others if finding not in lost]


def _steps(diagnosed: Diagnosed) -> str:
    total = diagnosed.evidence.total_steps
    if diagnosed.row is not None:
        total = total or diagnosed.row.steps_total
    of = f" of {total}" if total is not None else ""
    return f"step {diagnosed.evidence.last_step}{of}" if diagnosed.evidence.metrics else "no step in its log"


def _in_language(hit: Hit) -> Hit:
    """Return a hit with its texts in the language of the reader, as far as this rlx has them."""
    if reader_language() is Language.EN or hit.id not in finding_ids():
        return hit
    chinese = finding_row(hit.id).zh
    return replace(hit, name=chinese.title, meaning=chinese.reason, fix=chinese.fix)


def _label(name: str, width: int = 0) -> str:
    """Return what stands before a text of a finding, in the language of the text."""
    if reader_language() is Language.ZH:
        return f"{_CHINESE[name]}："
    return f"{name:<{width}}" if width else f"{name}: "


def _whole(hit: Hit, remark: str = "") -> Iterator[str]:
    hit = _in_language(hit)
    times = f", {hit.times} times" if hit.times > 1 else ""
    yield f"  {hit.id} {hit.name}{remark}"
    yield f"    line {hit.line}{times}: {shortened(hit.text.strip(), _LINE_CHARACTERS)}"
    if hit.exception and hit.exception not in hit.text:
        yield f"    raised  {shortened(hit.exception, _LINE_CHARACTERS)}"
    if hit.at:
        yield f"    at      {hit.at}"
    for name, text in (("means", hit.meaning), ("fix", hit.fix), ("source", hit.source)):
        if text:
            yield f"    {_label(name, 8)}{text}"


def without_cause(diagnosed: Diagnosed) -> Iterator[str]:
    """Yield one line instead of a cause."""
    if diagnosed.diagnosis.log_bytes is None:
        yield "  there is no log yet"
    elif diagnosed.diagnosis.log_bytes == 0:
        yield "  metrics, but no console log" if diagnosed.evidence.metrics else "  its log is empty"
    elif diagnosed.row is not None and diagnosed.row.state is RunState.STOPPED:
        yield "  it was stopped on request"
    elif is_unexplained(diagnosed):
        yield f"  {_unexplained(diagnosed)}"
    elif diagnosed.diagnosis.findings:
        yield "  no line of its log shows a failure"
    else:
        yield "  no failure in its log"


def _unexplained(diagnosed: Diagnosed) -> str:
    if diagnosed.row is not None or diagnosed.evidence.total_steps is not None:
        return "its log does not say why it ended"
    if diagnosed.evidence.metrics:
        return "it contains neither the planned number of steps nor a failure"
    return "rlx recognises no line of it, neither a step nor a failure; is it the console log of a run?"


def is_unexplained(diagnosed: Diagnosed) -> bool:
    """Tell whether the run ended without a cause in its log."""
    ended = diagnosed.row is not None and diagnosed.row.state in (RunState.FAILED, RunState.LOST)
    total, last = diagnosed.evidence.total_steps, diagnosed.evidence.last_step
    broke_off = diagnosed.row is None and (total is None or last < total)
    return diagnosed.diagnosis.cause is None and diagnosed.diagnosis.log_bytes is not None and (ended or broke_off)


def _section(title: str, hits: Sequence[Hit], *, whole: bool = False) -> Iterator[str]:
    if hits:
        yield f"  {title}"
    for hit in map(_in_language, hits):
        if whole:
            yield from (f"  {line}" for line in _whole(hit))
        else:
            times = f", {hit.times} times" if hit.times > 1 else ""
            yield f"    {hit.id} {hit.name} (line {hit.line}{times})"


def _finding(finding: Finding) -> Iterator[str]:
    yield f"  {finding.severity} {finding.id} {message_text(finding)}"
    if finding.fix:
        yield f"    {_label('fix', 8)}{fix_text(finding)}"


def as_answer(diagnosed: Diagnosed) -> Mapping[str, Any]:
    """Return a run or a log as the JSON of `diagnose`. Lines count from 1."""
    from rlx.cli.text.run_document import verdict_document

    row = diagnosed.row
    return {
        "run_id": row.ref.run_id if row else None,
        "arm": row.ref.arm if row else None,
        "seed": row.ref.seed if row else None,
        "host": row.ref.host if row else None,
        "log": diagnosed.log,
        "state": row.state if row else None,
        "exit_code": row.observation.exit_code if row else None,
        "last_step": diagnosed.evidence.last_step if diagnosed.evidence.metrics else None,
        "total_steps": diagnosed.evidence.total_steps,
        "verdict": verdict_document(row.verdict) if row else None,
        "problem": diagnosed.problem.message if diagnosed.problem else None,
        **_diagnosis_document(diagnosed.diagnosis),
    }


def _diagnosis_document(diagnosis: Diagnosis) -> Mapping[str, Any]:
    return {
        "cause": diagnosis.cause,
        "symptoms": diagnosis.symptoms,
        "warnings": diagnosis.warnings,
        "findings": diagnosis.findings,
        "last_lines": diagnosis.last,
        "log_bytes": diagnosis.log_bytes,
    }


def markdown_text(diagnosed: Diagnosed) -> str:
    """Return a heading and a list. Lines of logs are code, so that nothing in them becomes a tag or a link."""
    return printable("\n".join([f"**{prose(title_of(diagnosed))}**", "", *_items(diagnosed)]))


def _items(diagnosed: Diagnosed) -> Iterator[str]:
    diagnosis = diagnosed.diagnosis
    before, after = parted_findings(diagnosed)
    for finding in before:
        yield f"- **{finding.id} {prose(message_text(finding))}**"
        yield from _fix(finding)
    if diagnosed.problem is not None:
        yield f"- not read: {prose(diagnosed.problem.message)}"
        return
    if diagnosis.cause is not None:
        yield from _whole_item(diagnosis.cause, UNSURE.get(diagnosis.cause.kind, ""))
    else:
        yield from (f"- {text.strip()}" for text in without_cause(diagnosed))
    yield from _others("with it", diagnosis.symptoms)
    yield from _others("on the way", diagnosis.warnings)
    for finding in after:
        yield f"- {finding.id} {prose(message_text(finding))}"
        yield from _fix(finding)
    if is_unexplained(diagnosed) and diagnosis.last:
        shown = [shortened(text, _LINE_CHARACTERS) for text in diagnosis.last[-_LAST_LINES:]]
        yield from ("", "Its last lines:", "", *block(shown))


def _fix(finding: Finding) -> Iterator[str]:
    if finding.fix:
        yield f"  - {_label('fix')}{prose(fix_text(finding))}"


def _whole_item(hit: Hit, remark: str) -> Iterator[str]:
    hit = _in_language(hit)
    yield f"- **{hit.id} {prose(hit.name)}**{remark}"
    yield f"  - line {hit.line}{_times(hit)}: {_code(hit.text)}"
    if hit.exception and hit.exception not in hit.text:
        yield f"  - raised: {_code(hit.exception)}"
    if hit.at:
        yield f"  - at: {_code(hit.at)}"
    for name, text in (("means", hit.meaning), ("fix", hit.fix), ("source", hit.source)):
        if text:
            yield f"  - {_label(name)}{prose(text)}"


def _others(title: str, hits: Sequence[Hit]) -> Iterator[str]:
    if hits:
        yield f"- {title}:"
        yield from (f"  - {hit.id} {prose(hit.name)} (line {hit.line}{_times(hit)})" for hit in map(_in_language, hits))


def _times(hit: Hit) -> str:
    return f", {hit.times} times" if hit.times > 1 else ""


def _code(text: str) -> str:
    return code(shortened(text.strip(), _LINE_CHARACTERS))
