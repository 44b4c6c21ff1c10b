"""Choose runs by what is known of them: `arm=aqn,state=failed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.runs.status.snapshots import Snapshot

_ONE: dict[str, Callable[[Snapshot], str]] = {
    "arm": lambda row: row.ref.arm,
    "seed": lambda row: str(row.ref.seed),
    "name": lambda row: row.ref.name,
    "host": lambda row: row.ref.host,
    "launch": lambda row: row.ref.launch_id,
    "state": lambda row: row.state.value,
    "verdict": lambda row: row.verdict.word,
}
_TAG = "tag"
"""The one fact of which a run may have several."""


def row_filter(text: str) -> Callable[[Snapshot], bool]:
    """Read `KEY=VALUE[,KEY=VALUE]…`, of which all must hold. Raises UsageError for anything else."""
    wanted: dict[str, str] = {}
    tags: set[str] = set()
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or key not in (*_ONE, _TAG):
            known = ", ".join((*_ONE, _TAG))
            raise UsageError(f"--where {text}: {part!r} is no condition", f"KEY=VALUE, with {known} as KEY")
        if key in wanted:
            raise UsageError(f"--where {text}: {key} is named twice, and a run has one", "name it once")
        if key == _TAG:
            tags.add(value)
        else:
            wanted[key] = value
    return lambda row: tags <= {*row.label.tags} and all(_ONE[key](row) == value for key, value in wanted.items())
