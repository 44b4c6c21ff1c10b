"""Track or import a run that was started outside rlx."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from rlx.errors import RlxError, UsageError
from rlx.evidence import Evidence, RunTotals, read_evidence
from rlx.local_files import open_regular
from rlx.model import LOCAL, LaunchPlan, Place, Site
from rlx.model.run_dir import ATTEMPTS_DIR, LOG_FILE, MANIFEST_FILE, METRICS_FILE
from rlx.runs.duration import duration
from rlx.runs.importing.log_copy import ask_log, point_latest, read_copy, refresh
from rlx.runs.importing.log_source import (
    LogSource,
    adopted_manifests,
    adopted_root,
    read_source,
    run_dirs,
    write_source,
)
from rlx.runs.index.run_index import Index
from rlx.runs.judging.diagnose_runs import NO_EXPECTATIONS, explains_an_end, refuse_no_text, refuse_utf16
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import render_manifest
from rlx.runs.run import RunRef, new_launch_id, new_ref

_CHUNK = 1 << 20
_MOST_PACKED, _MOST_RATIO = 1 << 30, 50
_GZIP = b"\x1f\x8b"
_RECENT_S = 900.0


def adopt(index: Index, place: Place, path: str, plan: LaunchPlan) -> RunRef:
    """Copy the log for the first time and add the run to the index; the log itself is only read.

    Raises RlxError if the log cannot be read, HostError if the place does not answer, UsageError if the log is tracked
    already.
    """
    source = LogSource(place, (path,))
    for run_dir in run_dirs(index.path.parent):
        if read_source(run_dir) == source and _is_same_log(run_dir, source):
            raise UsageError(f"{source} is adopted already, as {run_dir.name}", f"rlx status {run_dir.name}")

    def copy(folder: Path) -> None:
        write_source(folder, source)
        copied, problem = refresh(folder)
        if problem is not None:
            raise problem
        if copied.gone:
            raise RlxError(f"{source}: there is no such file", "name the console log that the run writes")

    return register(index, plan, place, copy)


def _is_same_log(run_dir: Path, source: LogSource) -> bool:
    """Tell whether it is the same log: the file of an earlier, ended run may belong to another run by now."""
    copy = read_copy(run_dir)
    if copy.is_written or copy.left:
        return True
    answer = ask_log(source.place, source.paths[0], copy.extent)
    return answer is not None and answer.start == copy.extent.bytes


@dataclass(frozen=True, slots=True)
class Imported:
    """A new run, and remarks on its logs for the user, one line each."""

    ref: RunRef
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A log and its copy. `first` is its first step."""

    path: Path
    folder: Path
    digest: str
    first: int
    remarks: Sequence[str]


def import_logs(index: Index, logs: Sequence[Path], plan: LaunchPlan) -> Imported:
    """Import console logs, or metrics.jsonl files, plain or gzipped; the files themselves are only read.

    They are sorted by their first steps; one without a step stays behind the one before it. Raises RlxError for what
    cannot be read or is no text, UsageError for a log that this run has already, and for a file in which no command
    could find anything.
    """
    paths, remarks = [Path(log).absolute() for log in logs], list[str]()

    def copy(folder: Path) -> None:
        parts = _copies(paths, folder / ATTEMPTS_DIR, ParsedFiles(index.home))
        _refuse_twice(index, plan.run_name, parts)
        remarks.extend(_arrange(parts))
        sources = tuple(str(part.path) for part in parts), tuple(part.digest for part in parts)
        write_source(folder, LogSource(LOCAL, *sources))
        point_latest(folder, len(parts))

    return Imported(register(index, plan, LOCAL, copy), tuple(remarks))


def _copies(paths: Sequence[Path], attempts: Path, parsed: ParsedFiles) -> list[_Part]:
    parts: list[_Part] = []
    for number, path in enumerate(paths, start=1):
        folder = attempts / f"given-{number}"
        digest = _copy_log(path, folder)
        evidence, remarks = _inspect_copy(path, folder, parsed)
        first = min(evidence.metrics, default=parts[-1].first if parts else 0)
        found = (evidence.metrics, evidence.noise, evidence.announced, evidence.progress)
        if not (any(found) or evidence.totals != RunTotals() or explains_an_end(folder / LOG_FILE)):
            raise UsageError(
                f"{path} has no metric line (step:N - key:value), no noise line and no failure that rlx knows: "
                "it is no log of a run, or one that was cut off before it said anything",
                "name the console log of the run, or its metrics.jsonl",
            )
        parts.append(_Part(path, folder, digest, first, remarks))
    return parts


def _refuse_twice(index: Index, run_name: str, parts: Sequence[_Part]) -> None:
    known: dict[str, Path] = {}
    for part in parts:
        if part.digest in known:
            raise UsageError(f"{part.path} is the same log as {known[part.digest]}", "name it once")
        known[part.digest] = part.path
    for run_dir in run_dirs(index.path.parent, run_name):
        for digest in read_source(run_dir).digests:
            if digest in known:
                raise UsageError(
                    f"{known[digest]} is imported already, as {run_dir.name}",
                    f"rlx status {run_dir.name}; or give it another --name, --arm or --seed",
                )


def _arrange(parts: list[_Part]) -> list[str]:
    """Make each log an attempt, in the order of their steps, and return remarks for the user."""
    given = [part.path for part in parts]
    parts.sort(key=lambda part: part.first)
    for number, part in enumerate(parts, start=1):
        part.folder.rename(part.folder.with_name(str(number)))
    remarks = [remark for part in parts for remark in part.remarks]
    if given != [part.path for part in parts]:
        remarks.insert(0, f"taken in the order of their steps: {', '.join(part.path.name for part in parts)}")
    return remarks


def plan_without_recipe(name: str, arm: str, seed: int, backend: str) -> LaunchPlan:
    """Return the plan of a run of which only the name is known."""
    return LaunchPlan(
        name=name,
        arm=arm,
        control=None,
        seed=seed,
        backend=backend,
        backend_version="?",
        site=Site(),
        command=(),
        env={},
        secrets=(),
        files=(),
        expectations=NO_EXPECTATIONS,
        treatment=(),
        recipe={},
        device_kind="?",
        devices=1,
    )


def register(index: Index, plan: LaunchPlan, place: Place, fill: Callable[[Path], None]) -> RunRef:
    """Make a run directory with what `fill` writes into it (its source and its logs), and add it to the index.

    `place` is where the logs are. If `fill` raises, nothing is left. Raises RlxError if it cannot be written.
    """
    root, now = adopted_root(index.path.parent), time.time()
    # Nothing of this run is shipped, started or kept secret by rlx.
    site = Site(Place(place.host), container=place.inside, root=str(root))
    plan = replace(plan, site=site, command=(), env={}, secrets=(), files=(), findings=())
    # Runs of one name and host are shown together, like the arms of a launch.
    together = [
        known
        for known in adopted_manifests(index.path.parent)
        if (known.plan.name, known.plan.site.host) == (plan.name, plan.site.host)
    ]
    launch_id = together[0].launch_id if together else new_launch_id(now)
    ref, position = new_ref(plan, launch_id, now), len(together)
    try:
        _build(root / "runs", ref.run_id, render_manifest(ref, position, plan), fill)
    except OSError as problem:
        raise RlxError(f"{root}: {problem.strerror}", "check that the folder is writable and not full") from None
    index.add(ref, position)
    return ref


def _build(runs: Path, run_id: str, manifest: str, fill: Callable[[Path], None]) -> None:
    """Build the run directory under another name first, so that an existing one always has its logs."""
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=runs, prefix=".incoming-") as scratch:
        folder = Path(scratch, "run")
        folder.mkdir()
        (folder / MANIFEST_FILE).write_text(manifest, encoding="utf-8")
        fill(folder)
        folder.replace(runs / run_id)


def _copy_log(path: Path, folder: Path) -> str:
    """Copy the text of a log into `folder` as an attempt has it, in constant memory; return the SHA-256 of the text.

    A file of `{"step": …, "data": …}` lines becomes `metrics.jsonl`, everything else the console log. Raises RlxError
    for what cannot be read, is empty or damaged.
    """
    folder.mkdir(parents=True)
    # The commands that show logs need one.
    (folder / LOG_FILE).touch()
    digest = hashlib.sha256()
    with _opened(path) as text:
        head = text.read(_CHUNK)
        refuse_utf16(path, head)
        with (folder / (METRICS_FILE if _holds_metrics(head) else LOG_FILE)).open("wb") as copy:
            # Logs pack to a tenth.
            is_packed = isinstance(text, gzip.GzipFile)
            left = _MOST_PACKED + _MOST_RATIO * path.stat().st_size if is_packed else math.inf
            for chunk in chain([head], iter(lambda: text.read(_CHUNK), b"")):
                left -= len(chunk)
                if left < 0:
                    raise RlxError(
                        f"{path} unpacks to more than {_MOST_RATIO} times its size and 1 GiB, as no log does",
                        f"if it is one, unpack it yourself, and import that: zcat {path} >whole.log",
                    )
                digest.update(chunk)
                copy.write(chunk)
    if not head:
        raise RlxError(f"{path} is empty", "name the console log of the run")
    return digest.hexdigest()


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open the text of a file, unpacked if it is gzipped; errors while it is read name the file."""
    if path.is_dir():
        inside = f"{ATTEMPTS_DIR}/*/{LOG_FILE}" if (path / ATTEMPTS_DIR).is_dir() else "*.log"
        raise RlxError(f"{path} is a directory", f"name the logs in it, as in {path}/{inside}")
    try:
        raw = open_regular(path)
    except OSError as problem:
        raise RlxError(f"{path}: {problem.strerror}", "name a console log that you can read") from None
    try:
        with raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if packed:
                with gzip.open(raw) as text:
                    yield text  # type: ignore[misc]
            else:
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise RlxError(
            f"{path} is damaged: {problem}", f"unpack what is left of it, and import that: zcat {path} >part.log"
        ) from None


def _holds_metrics(head: bytes) -> bool:
    try:
        first = json.loads(head.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"step", "data"} <= first.keys()


def _inspect_copy(path: Path, folder: Path, parsed: ParsedFiles) -> tuple[Evidence, list[str]]:
    """Read the copy in `folder`, with remarks for the user. Raises RlxError if `path` is no text."""
    evidence = read_evidence([folder], parsed)
    shows_nothing = not evidence.metrics and evidence.progress is None and not evidence.noise
    if shows_nothing:
        refuse_no_text(path, folder / LOG_FILE)
    return evidence, list(_remarks(path, folder, evidence))


def _remarks(path: Path, folder: Path, evidence: Evidence) -> Iterator[str]:
    if not evidence.metrics:
        yield f"{path} has no metric line (step:N - key:value): there is no value in it to judge or compare"
    if not _ends_with_a_line(folder / LOG_FILE):
        yield f"{path}: its last line has no end and may be half written, so it is left out"
    age = time.time() - path.stat().st_mtime
    if age < _RECENT_S:
        yield f"{path} was written {duration(age)} ago; if it still grows, take it in with rlx adopt local:{path}"


def _ends_with_a_line(log: Path) -> bool:
    with log.open("rb") as copy:
        if copy.seek(0, 2) == 0:
            return True
        copy.seek(-1, 2)
        return copy.read(1) in b"\r\n"
