"""All that rlx can report, by an id that never changes: one row each, in English and Chinese."""

from rlx.findings.finding_table import (
    VERDICTS,
    FindingRow,
    FindingText,
    Language,
    finding_ids,
    finding_row,
    free_id,
    reader_language,
    require_row,
    section_rows,
)

__all__ = [
    "VERDICTS",
    "FindingRow",
    "FindingText",
    "Language",
    "finding_ids",
    "finding_row",
    "free_id",
    "reader_language",
    "require_row",
    "section_rows",
]
