"""Describe what a rule, probe or check reports of a recipe, a run or a comparison, with an id that never changes.

Ids: RLX0xx recipe, 1xx batch arithmetic, 2xx layout, 3xx memory, 4xx version, 5xx host, 6xx AQN,
7xx evaluation, 8xx run-time failure, 9xx comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from rlx.findings import FindingText, Language, finding_ids, finding_row, reader_language, require_row
from rlx.secret_text import mask


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement: `message` says what is wrong and where, with the numbers; `fix` says what to do.

    `waived`: why the recipe accepts it; such a finding is a note. Raises ValueError for an id that has no row in the
    table of findings (rlx/findings/).
    """

    id: str
    severity: Severity
    message: str
    fix: str = ""
    where: str = ""
    step: int | None = None
    waived: str = ""

    def __post_init__(self) -> None:
        require_row(self.id)
        self._mask()

    @classmethod
    def recorded(cls, **values: Any) -> Self:
        """Return one that a file holds. Its id may be of another rlx, or of a back-end that is not installed here."""
        finding = object.__new__(cls)
        for each in fields(cls):
            object.__setattr__(finding, each.name, values.get(each.name, each.default))
        finding._mask()
        return finding

    def _mask(self) -> None:
        """Mask secrets: a message may quote a script or a log, and stands in manifests."""
        for name in ("message", "fix"):
            object.__setattr__(self, name, mask(getattr(self, name)))


def finding_text(finding: Finding) -> str:
    """Return what a person reads of a finding: `error RLX010 recipe.yaml:12: …`, and its fix on a line of its own."""
    where = f" {finding.where}:" if finding.where else ""
    fix = f"\n  {fix_line(finding)}" if finding.fix else ""
    return f"{finding.severity} {finding.id}{where} {message_text(finding)}{fix}"


def message_text(finding: Finding) -> str:
    """Return the message; for a reader of Chinese after the Chinese title, since only the message has numbers."""
    chinese = _chinese(finding)
    return f"{chinese.title}：{finding.message}" if chinese else finding.message


def fix_text(finding: Finding) -> str:
    """Return the fix; for a reader of Chinese, after the fix of the table in Chinese. Empty where there is none."""
    chinese = _chinese(finding) if finding.fix else None
    return f"{chinese.fix}（{finding.fix}）" if chinese else finding.fix


def fix_line(finding: Finding) -> str:
    """Return the fix after a label in the same language: `fix: …`."""
    return f"{'修复：' if _chinese(finding) else 'fix: '}{fix_text(finding)}"


def _chinese(finding: Finding) -> FindingText | None:
    """Return the Chinese row of a finding, if the person reads Chinese and this rlx knows the id."""
    if reader_language() is not Language.ZH or finding.id not in finding_ids():
        return None
    return finding_row(finding.id).zh
