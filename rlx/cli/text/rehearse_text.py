"""A rehearsal for a person: what was changed, what passed, what it cannot tell, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.rehearsing import Done

_MARKS = {True: "passed", False: "FAILED", None: "-"}
_WIDEST = 48


def text_lines(done: Done) -> Iterator[str]:
    made, result = done.rehearsal, done.result
    recipe = made.resolved.recipe
    outcome = "passed" if result.passed else "FAILED"
    yield f"{recipe.name}, arm {made.resolved.arm}: the rehearsal {outcome} in {done.seconds:.0f} s"
    yield f"  prompts a step and an update divided by {made.factor}; {made.model.shown}; answers by {made.engine.shown}"
    yield "what it showed"
    yield from _table([(_MARKS[check.passed], check.name, check.detail) for check in result.checks])
    for finding in result.findings:
        yield f"{finding.severity} {finding.id} {finding.message}"
        yield f"  fix: {finding.fix}"
    yield "what was changed"
    rows = [(change.key, _short(change.recipe), _short(change.rehearsed), change.why) for change in made.changes]
    yield from _table([("key", "recipe", "rehearsed", "why"), *rows])
    if made.untold:
        yield "what was not rehearsed"
        yield from _table([(untold.what, untold.why) for untold in made.untold])
    if done.folder:
        yield f"kept: {done.folder}"


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield f"  {'  '.join(cells)}".rstrip()


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"
