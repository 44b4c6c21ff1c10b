"""Read why an attempt was begun, and from where. Host and container can write that file, as all others of a run."""

from __future__ import annotations

from pathlib import Path

from rlx.errors import UsageError
from rlx.local_files import parse_json, read_bytes
from rlx.model import from_jsonable
from rlx.model.attempt_lineage import Lineage
from rlx.model.run_dir import LINEAGE_FILE

_MOST_BYTES = 100_000


def read_lineage(attempt_dir: Path, number: int) -> Lineage | None:
    """The lineage of attempt `number`; None where there is none that can be read, or it is another's."""
    try:
        found = from_jsonable(Lineage, parse_json(read_bytes(attempt_dir / LINEAGE_FILE, _MOST_BYTES)))
    except (OSError, ValueError, UsageError, RecursionError):
        return None
    is_own = number > 1 and found.attempt == number
    return found if is_own and (found.step is None or 0 <= found.step < 1 << 53) else None
