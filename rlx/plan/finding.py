"""Findings: what rlx has to say about a recipe, a run or a comparison, with an id that never changes.

Ids: RLX0xx recipe, 1xx batch arithmetic, 2xx layout, 3xx memory, 4xx version, 5xx host, 6xx AQN,
7xx evaluation, 8xx run-time failure, 9xx comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rlx.secret_text import mask


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement: `message` says what is wrong and where, with the numbers; `fix` says what to do.

    `waived`: why the recipe accepts it; such a finding is a note.
    """

    id: str
    severity: Severity
    message: str
    fix: str = ""
    where: str = ""
    step: int | None = None
    waived: str = ""

    def __post_init__(self) -> None:
        """Mask secrets: a message may quote a script or a log, and stands in manifests."""
        for name in ("message", "fix"):
            object.__setattr__(self, name, mask(getattr(self, name)))
