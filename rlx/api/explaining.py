"""Explain findings: what one means, why it matters, what to do, and where the fact comes from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.evidence.diagnosis import Signature


@dataclass(frozen=True, slots=True)
class Explanation:
    """`source` is empty where the fact is rlx's own."""

    id: str
    what: str
    why: str
    fix: str
    source: str


def explain(id: str) -> Explanation:
    """Explain any id that rlx prints, such as RLX104, or the word of a verdict.

    Raises UsageError with the nearest ids for an unknown one.
    """
    return _word(id.lower()) or _finding(id.upper())


def explain_all() -> list[Explanation]:
    """Explain every finding there is, by id."""
    return [_finding(id) for id in sorted({*_rows(), *_signatures()})]


def _finding(id: str) -> Explanation:
    from rlx.preflight.rules import find_rule

    if rule := find_rule(id):
        return Explanation(rule.id, rule.title, rule.why, rule.fix, rule.source)
    if known := _signatures().get(id):
        return Explanation(known.id, known.name, known.meaning, known.fix, known.source)
    return _row(id)


@cache
def _signatures() -> dict[str, Signature]:
    """The lines of a log that rlx diagnose knows, by id."""
    from rlx.evidence.diagnosis import signatures

    return {each.id: each for each in signatures()}


def _word(word: str) -> Explanation | None:
    """Read what a verdict means from the page of verdicts."""
    from rlx.resources import findings_page

    for line in findings_page().read_text(encoding="utf-8").splitlines():
        named, *cells = line.strip("| ").split(" | ")
        if line.startswith("| `") and named.split("`")[-2] == word and len(cells) == 2:
            see = "rlx status -v and rlx diagnose RUN name the findings behind it"
            return Explanation(word, cells[0], f"in a comparison: {cells[1]}", see, "")
    return None


def _row(id: str) -> Explanation:
    from difflib import get_close_matches

    from rlx.errors import UsageError

    found = _rows()
    if id not in found:
        nearest = get_close_matches(id, {*found, *_signatures()}, n=3)
        hint = f"did you mean {', '.join(nearest)}?" if nearest else "rlx explain lists them all"
        raise UsageError(f"there is no finding {id}", hint)
    what, why, fix = found[id][1:]
    return Explanation(id, what, why, fix, "")


@cache
def _rows() -> dict[str, list[str]]:
    """Read the page that lists them all, which comes with rlx: id -> its cells."""
    from rlx.resources import findings_page

    lines = findings_page().read_text(encoding="utf-8").splitlines()
    found: dict[str, list[str]] = {}
    row = [""] * 4
    for line in lines:
        if line.startswith("| RLX"):
            cells = line.strip("| ").split(" | ")
            # The table saves words, one page cannot.
            row = [above if cell == "as above" else cell for cell, above in zip(cells, row, strict=True)]
            found[row[0]] = row
    return found
