"""Take in logs as they are, of a run that is over: one attempt of the run each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import UsageError
from rlx.evidence import Evidence, Totals
from rlx.model import LOCAL, LaunchPlan
from rlx.model.run_dir import ATTEMPTS_DIR, LOG_FILE
from rlx.runs.adopted.adopted_dirs import run_dirs
from rlx.runs.adopted.adopted_store import take_in
from rlx.runs.adopted.log_copy import point_latest
from rlx.runs.adopted.log_file import copy_log, inspect_copy
from rlx.runs.adopted.log_source import Source, read_source, write_source
from rlx.runs.index.run_index import Index
from rlx.runs.judging.diagnosed import explains_an_end
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class Imported:
    """A new run, and what a person should know of its logs, one line each."""

    ref: RunRef
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A log and its copy. `first` is the step it begins at."""

    path: Path
    folder: Path
    digest: str
    first: int
    remarks: Sequence[str]


def import_logs(index: Index, logs: Sequence[Path], plan: LaunchPlan) -> Imported:
    """Copy console logs, or metrics.jsonl files, plain or gzipped; the files themselves are only read.

    They are put in the order of their first steps; one without a step stays behind the one before it. Raises RlxError
    for what cannot be read or is no text, UsageError for a log that this run has already, and for a file in which no
    command could find anything.
    """
    paths, remarks = [Path(log).absolute() for log in logs], list[str]()

    def copy(folder: Path) -> None:
        parts = _copies(paths, folder / ATTEMPTS_DIR, ParsedFiles(index.home))
        _refuse_twice(index, plan.run_name, parts)
        remarks.extend(_arrange(parts))
        write_source(folder, Source(LOCAL, *_columns(parts)))
        point_latest(folder, len(parts))

    return Imported(take_in(index, plan, LOCAL, copy), tuple(remarks))


def _copies(paths: Sequence[Path], attempts: Path, parsed: ParsedFiles) -> list[_Part]:
    parts: list[_Part] = []
    for number, path in enumerate(paths, start=1):
        folder = attempts / f"given-{number}"
        digest = copy_log(path, folder)
        evidence, remarks = inspect_copy(path, folder, parsed)
        first = min(evidence.metrics, default=parts[-1].first if parts else 0)
        if not (_says_something(evidence) or explains_an_end(folder / LOG_FILE)):
            raise _says_nothing(path)
        parts.append(_Part(path, folder, digest, first, remarks))
    return parts


def _says_something(evidence: Evidence) -> bool:
    said = (evidence.metrics, evidence.noise, evidence.announced, evidence.progress)
    return any(said) or evidence.totals != Totals()


def _says_nothing(path: Path) -> UsageError:
    return UsageError(
        f"{path} has no metric line (step:N - key:value), no noise line and no failure that rlx knows: "
        "it is no log of a run, or one that was cut off before it said anything",
        "name the console log of the run, or its metrics.jsonl",
    )


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
    """Each log becomes an attempt, in the order of their steps; what a person should know of them."""
    given = [part.path for part in parts]
    parts.sort(key=lambda part: part.first)
    for number, part in enumerate(parts, start=1):
        part.folder.rename(part.folder.with_name(str(number)))
    remarks = [remark for part in parts for remark in part.remarks]
    if given != [part.path for part in parts]:
        remarks.insert(0, f"taken in the order of their steps: {', '.join(part.path.name for part in parts)}")
    return remarks


def _columns(parts: Sequence[_Part]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(str(part.path) for part in parts), tuple(part.digest for part in parts)
