"""Describe what a rule, probe or check reports of a recipe, a run or a comparison, with an id that never changes.

Ids: RLX0xx recipe, 1xx batch arithmetic, 2xx layout, 3xx memory, 4xx version, 5xx host, 6xx AQN,
7xx evaluation, 8xx run-time failure, 9xx comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

from rlx.findings import require_row
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
