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
    yield from _lines([(_MARKS[check.passed], check.name, check.detail) for check in result.checks])
    for finding in result.findings:
        yield f"{finding.severity} {finding.id} {finding.message}"
        yield f"  fix: {finding.fix}"
    yield "what was changed"
    rows = [(change.key, _short(change.recipe), _short(change.rehearsed), change.why) for change in made.changes]
    yield from _lines(rows, ("key", "recipe", "rehearsed", "why"))
    if made.untold:
        yield "what was not rehearsed"
        yield from _lines([(untold.what, untold.why) for untold in made.untold])
    if done.folder:
        yield f"kept: {done.folder}"


def _lines(rows: Sequence[tuple[str, ...]], headings: Sequence[str] = ()) -> Iterator[str]:
    from rlx.cli.text.table_text import plain_table_lines
    from rlx.table import table_of_rows

    if rows or headings:
        yield from plain_table_lines(table_of_rows(headings or [""] * len(rows[0]), rows), indent=2)


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"
