"""Keep the waivers of runs in RLX_HOME/waivers: one file per run, which bundles and pulls include."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import RlxError, UsageError
from rlx.evidence.verdict import Waiver
from rlx.local_files import parse_json, read_bytes
from rlx.model import from_jsonable, to_jsonable

FOLDER = "waivers"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Waivers:
    """All waivers of one run, as its file holds them."""

    run_id: str
    waivers: tuple[Waiver, ...] = ()


def waivers_file(home: Path, run_id: str) -> Path:
    """Return the file of the waivers of a run."""
    return home / FOLDER / f"{run_id}.json"


def read_waivers(home: Path, run_id: str) -> tuple[Waiver, ...]:
    """Read the waivers of a run, none without a file. Raises RlxError for one that cannot be read."""
    path = waivers_file(home, run_id)
    try:
        found = from_jsonable(Waivers, parse_json(read_bytes(path, _MOST_BYTES)))
        if found.run_id != run_id:
            raise ValueError(f"it is about {found.run_id}")
        return found.waivers
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, UsageError) as problem:
        reason = problem.message if isinstance(problem, UsageError) else getattr(problem, "strerror", None) or problem
        raise RlxError(f"{path}: no waivers can be read ({reason})", "move it away, and waive again") from None


def write_waivers(home: Path, run_id: str, waivers: Sequence[Waiver]) -> None:
    """Replace the waivers of a run; without any, the file is deleted. Raises RlxError if it cannot be written."""
    path = waivers_file(home, run_id)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not waivers:
            with suppress(FileNotFoundError):
                path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps(to_jsonable(Waivers(run_id, tuple(waivers))), indent=1, ensure_ascii=False)
        scratch.write_text(text + "\n", encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise RlxError(f"{path}: {error.strerror}", "is the disk full, or the folder of another user?") from None
