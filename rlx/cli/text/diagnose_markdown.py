"""A diagnosis as Markdown, ready for an issue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rlx.cli.text.diagnose_text import (
    LAST_LINES,
    LINE_CHARACTERS,
    UNSURE,
    is_unexplained,
    parted_findings,
    title_of,
    without_cause,
)
from rlx.markdown import block, code, prose
from rlx.terminal_text import printable

if TYPE_CHECKING:
    from rlx.evidence.diagnosis import Hit
    from rlx.model import Finding
    from rlx.runs.judging.diagnosed import Diagnosed


def markdown_text(found: Diagnosed) -> str:
    """A heading and a list. What a log says stands in code, so that no word of it is a tag or a link."""
    return printable("\n".join([f"**{prose(title_of(found))}**", "", *_items(found)]))


def _items(found: Diagnosed) -> Iterator[str]:
    diagnosis = found.diagnosis
    before, after = parted_findings(found)
    for finding in before:
        yield f"- **{finding.id} {prose(finding.message)}**"
        yield from _fix(finding)
    if found.problem is not None:
        yield f"- not read: {prose(found.problem.message)}"
        return
    if diagnosis.cause is not None:
        yield from _whole(diagnosis.cause, UNSURE.get(diagnosis.cause.kind, ""))
    else:
        yield from (f"- {text.strip()}" for text in without_cause(found))
    yield from _others("with it", diagnosis.symptoms)
    yield from _others("on the way", diagnosis.warnings)
    for finding in after:
        yield f"- {finding.id} {prose(finding.message)}"
        yield from _fix(finding)
    if is_unexplained(found) and diagnosis.last:
        shown = [text[:LINE_CHARACTERS] for text in diagnosis.last[-LAST_LINES:]]
        yield from ("", "Its last lines:", "", *block(shown))


def _fix(finding: Finding) -> Iterator[str]:
    if finding.fix:
        yield f"  - fix: {prose(finding.fix)}"


def _whole(hit: Hit, remark: str) -> Iterator[str]:
    yield f"- **{hit.id} {prose(hit.name)}**{remark}"
    yield f"  - line {hit.line}{_times(hit)}: {_code(hit.text)}"
    if hit.exception and hit.exception not in hit.text:
        yield f"  - raised: {_code(hit.exception)}"
    if hit.at:
        yield f"  - at: {_code(hit.at)}"
    for label, text in (("means", hit.meaning), ("fix", hit.fix), ("source", hit.source)):
        if text:
            yield f"  - {label}: {prose(text)}"


def _others(title: str, hits: Sequence[Hit]) -> Iterator[str]:
    if hits:
        yield f"- {title}:"
        yield from (f"  - {hit.id} {prose(hit.name)} (line {hit.line}{_times(hit)})" for hit in hits)


def _times(hit: Hit) -> str:
    return f", {hit.times} times" if hit.times > 1 else ""


def _code(text: str) -> str:
    return code(text.strip()[:LINE_CHARACTERS])
