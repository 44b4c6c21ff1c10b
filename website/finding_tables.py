"""Put the table of findings into the pages that list them, docs/verdicts.md and docs/rules.md, in both languages.

python -m website.finding_tables --write   bring the pages up to date
python -m website.finding_tables           exit 1 where one of them is not
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.page_tables import out_of_date, row
from rlx.findings import VERDICTS, FindingRow, FindingText, Language, finding_ids, finding_row, section_rows

TESTS = Path(__file__).parent.parent / "tests"
# The sections of docs/verdicts.md; the failures are in docs/diagnosis.md (python -m benchmarks.signatures).
SECTIONS = ("before-launch", "host", "slurm", "ray", "rehearsal", "noise", "completeness", "grading", "comparison")
HEADS = {
    "en": {
        VERDICTS: ("verdict", "means", "consequence"),
        "findings": ("id", "what", "why it matters", "fix"),
        "rules": ("rule", "refused by", "where, or what happens", "shown"),
    },
    "zh": {
        VERDICTS: ("判定", "含义", "后果"),
        "findings": ("编号", "是什么", "为什么重要", "修复办法"),
        "rules": ("规则", "由谁拒绝", "在哪里，或者会怎样", "已实测"),
    },
}
YES = {"en": "yes", "zh": "是"}


def main(arguments: Sequence[str]) -> int:
    write = "--write" in arguments
    stale = [path for page, tables in PAGES.items() for path in out_of_date(page, tables, write=write)]
    for path in stale:
        print(f"{path} is not up to date: python -m website.finding_tables --write")
    return int(bool(stale))


def verdicts(language: str) -> Mapping[str, str]:
    """The tables of docs/verdicts.md."""
    words = ((f"`{each.id}`", text.title, text.reason) for each, text in _texts(VERDICTS, language))
    tables = {VERDICTS: _table(HEADS[language][VERDICTS], words)}
    for section in SECTIONS:
        rows = ((each.id, text.title, text.reason, text.fix) for each, text in _texts(section, language))
        tables[section] = _table(HEADS[language]["findings"], rows)
    return tables


def rules(language: str) -> Mapping[str, str]:
    """The table of docs/rules.md."""
    shown = shown_in_verl()
    texts = ((id, finding_row(id).text(Language(language))) for id in finding_ids())
    rows = (
        (id, text.refused_by, text.refused_at, YES[language] if id in shown else "")
        for id, text in texts
        if text.refused_by
    )
    return {"rules": _table(HEADS[language]["rules"], rows)}


def shown_in_verl() -> set[str]:
    """The ids of rules whose breaking recipe a test gives to verl, by the names in those tests and of recorded runs."""
    tests = [path.read_text(encoding="utf-8") for path in (TESTS / "planning").glob("test_rules_in*.py")]
    runs = [folder.name for folder in (TESTS / "cases" / "preflight-in-verl").iterdir()]
    return set(re.findall(r"RLX\d{3}", "\n".join(tests + runs)))


def _texts(section: str, language: str) -> Iterator[tuple[FindingRow, FindingText]]:
    return ((each, each.text(Language(language))) for each in section_rows(section))


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join([row(*head), f"|{'---|' * len(head)}", *(row(*cells) for cells in rows)])


PAGES = {"verdicts": verdicts, "rules": rules}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
