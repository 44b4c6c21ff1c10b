"""The layout of a bundle: which files may be in it. Whoever writes one and whoever unpacks one go by the same list.

bundle.json  SHA256SUMS  README.txt  experiments/<digest>.json  waivers/<run id>.json
runs/<run id>/…          as in a run directory: evidence and promises, no program, no environment, no weights
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlx.evidence.reading.kept_answers import SUMMARY_FILE
from rlx.model.run_dir import (
    ATTEMPTS_DIR,
    COMPOSED_FILE,
    EVENTS_DIR,
    EXIT_FILE,
    LINEAGE_FILE,
    LOG_FILE,
    MANIFEST_FILE,
    METRICS_FILE,
    PRINTED_FILE,
    PROVENANCE_FILE,
    STATE_DIR,
    STOP_FILE,
    USAGE_FILE,
    VALIDATION_DIR,
)
from rlx.runs.adopted.log_copy import CURSOR_FILE
from rlx.runs.adopted.log_source import SOURCE_FILE
from rlx.runs.index.kept_waivers import FOLDER as WAIVERS
from rlx.runs.index.registrations import FOLDER

DOCUMENT, SUMS, README = "bundle.json", "SHA256SUMS", "README.txt"
RUNS = "runs"
RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,299}")
_EXIT = f"{STATE_DIR}/{EXIT_FILE}"
_TAKEN_IN = (SOURCE_FILE, CURSOR_FILE)
_OF_RUN = (MANIFEST_FILE, STOP_FILE)
_STOP = f"{STATE_DIR}/{STOP_FILE}"
_OF_ATTEMPT = (
    LINEAGE_FILE,
    LOG_FILE,
    METRICS_FILE,
    USAGE_FILE,
    PROVENANCE_FILE,
    COMPOSED_FILE,
    PRINTED_FILE,
    _EXIT,
    _STOP,
)
_NAME = r"[\w@+=,~-][\w.@+=,~:-]{0,240}"


def _any(names: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, names))


_MANY = rf"{EVENTS_DIR}/{_NAME}\.jsonl|{VALIDATION_DIR}/(?:\d{{1,9}}\.jsonl|{re.escape(SUMMARY_FILE)})"
_IN_ATTEMPT = rf"{ATTEMPTS_DIR}/\d{{1,6}}/(?:{_any(_OF_ATTEMPT)}|{_MANY})"
_IN_RUN = rf"(?:{_any((*_OF_RUN, *_TAKEN_IN))}|{_IN_ATTEMPT})"
_PATH = re.compile(
    rf"{_any((DOCUMENT, SUMS, README))}|{FOLDER}/[0-9a-f]{{64}}\.json|{WAIVERS}/{RUN_ID.pattern}\.json|"
    rf"{RUNS}/(?P<run>{RUN_ID.pattern})/{_IN_RUN}",
    re.ASCII,
)


def belongs(path: str) -> bool:
    """Tell whether a bundle may hold a file of this name."""
    return _PATH.fullmatch(path) is not None


def run_of(path: str) -> str:
    """The id of the run that a file of a bundle is of; "" where it is of none."""
    found = _PATH.fullmatch(path)
    return found["run"] or "" if found else ""


def evidence_files(run_dir: Path) -> Iterator[str]:
    """The files of a run that a verdict may need, by their paths in the run directory."""
    taken_in = _TAKEN_IN if (run_dir / SOURCE_FILE).is_file() else ()
    yield from _there(run_dir, (*_OF_RUN, *taken_in), (*_OF_ATTEMPT, f"{EVENTS_DIR}/*", f"{VALIDATION_DIR}/*"))


def record_files(run_dir: Path) -> Iterator[str]:
    """The files that say what a run was and how it ended, and nothing of its values."""
    yield from _there(run_dir, _OF_RUN, (_EXIT, _STOP, LINEAGE_FILE))


def _there(run_dir: Path, own: Iterable[str], of_attempts: Iterable[str]) -> Iterator[str]:
    patterns = (*own, *(f"{ATTEMPTS_DIR}/*/{name}" for name in of_attempts))
    found = (str(path.relative_to(run_dir)) for pattern in patterns for path in run_dir.glob(pattern))
    yield from (path for path in found if belongs(f"{RUNS}/run/{path}"))
