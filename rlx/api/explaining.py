"""Explain findings: what one means, why it matters, what to do, and where the fact comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """`source` is empty where the fact is rlx's own."""

    id: str
    what: str
    why: str
    fix: str
    source: str


def explain(id: str) -> Explanation:
    """Explain any id that rlx prints, such as RLX104. Raises UsageError with the nearest ids for an unknown one."""
    from rlx.preflight.rules import find_rule

    id = id.upper()
    if rule := find_rule(id):
        return Explanation(rule.id, rule.title, rule.why, rule.fix, rule.source)
    return _row(id)


def _row(id: str) -> Explanation:
    """Read the row from the page that lists them all."""
    from difflib import get_close_matches

    from rlx.errors import UsageError
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
    if id not in found:
        nearest = get_close_matches(id, found, n=3)
        raise UsageError(f"there is no finding {id}", f"did you mean {', '.join(nearest)}?" if nearest else "")
    what, why, fix = found[id][1:]
    return Explanation(id, what, why, fix, "")
