"""The place of the logs of a run that rlx did not start."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.errors import RlxError, UsageError
from rlx.model import Place, from_jsonable, to_jsonable
from rlx.runs.run import RunRef

SOURCE_FILE = "source.json"


@dataclass(frozen=True, slots=True)
class Source:
    """`digests`: the SHA-256 of each log, for logs that were imported as they are; none for one that is followed.

    A followed log is one path; of imported ones, each is an attempt of the run, in this order.
    """

    place: Place
    paths: tuple[str, ...]
    digests: tuple[str, ...] = ()

    @property
    def followed(self) -> bool:
        return not self.digests

    def __str__(self) -> str:
        inside = f":{self.place.inside}" if self.place.inside else ""
        return f"{self.place.host}{inside}:{', '.join(self.paths)}"


def is_adopted(ref: RunRef) -> bool:
    """Tell whether it was taken in by its logs: rlx did not start it, and knows no process of it."""
    return ref.place.is_local and (ref.run_dir / SOURCE_FILE).is_file()


def source_of(run_dir: Path) -> Source | None:
    """Read the source; None for a run that rlx started. Raises RlxError if somebody damaged it."""
    return read_source(run_dir) if (run_dir / SOURCE_FILE).is_file() else None


def read_source(run_dir: Path) -> Source:
    """Raises RlxError if somebody damaged it."""
    try:
        return from_jsonable(Source, json.loads((run_dir / SOURCE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, UsageError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise RlxError(f"{run_dir / SOURCE_FILE}: {reason}", "take the log in again, under another name") from None


def write_source(run_dir: Path, source: Source) -> None:
    write_value(run_dir / SOURCE_FILE, source)


def write_value(path: Path, value: Any) -> None:
    """A dataclass as JSON; whoever reads meanwhile sees the old one or the new one."""
    aside = path.with_name(f".{path.name}-{os.getpid()}")
    aside.write_text(json.dumps(to_jsonable(value)) + "\n", encoding="utf-8")
    aside.replace(path)
