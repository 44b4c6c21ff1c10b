"""Explain findings: what one means, why it matters, what to do, and where the fact comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlx.errors import UsageError
from rlx.findings import VERDICTS, FindingRow, Language, finding_ids, finding_row, section_rows

# A link leads from the page of verdicts.
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Explanation:
    """`source` is empty where the fact is rlx's own; it is in English in every language."""

    id: str
    what: str
    why: str
    fix: str
    source: str


def explain(id: str, language: str = "en") -> Explanation:
    """Explain any id that rlx prints, such as RLX104, or the word of a verdict, in English (en) or Chinese (zh).

    Raises UsageError with the nearest ids for an unknown one, and for another language.
    """
    from difflib import get_close_matches

    ids, words = finding_ids(), [row.id for row in section_rows(VERDICTS)]
    wanted = id.lower() if id.lower() in words else id.upper()
    if wanted not in (*words, *ids):
        nearest = get_close_matches(wanted, ids, n=3)
        hint = f"did you mean {', '.join(nearest)}?" if nearest else "rlx explain lists them all"
        raise UsageError(f"there is no finding {wanted}", hint)
    return _explained(finding_row(wanted), language)


def explain_all(language: str = "en") -> list[Explanation]:
    """Explain every finding there is, by id."""
    return [_explained(finding_row(id), language) for id in finding_ids()]


def _explained(row: FindingRow, language: str) -> Explanation:
    if language not in tuple(Language):
        raise UsageError(f"findings are not explained in {language!r}", f"use one of {', '.join(Language)}")
    text = row.text(Language(language))
    what, why, fix = (_LINK.sub(r"\1", part) for part in (text.title, text.reason, text.fix))
    return Explanation(row.id, what, why, fix, row.source)
