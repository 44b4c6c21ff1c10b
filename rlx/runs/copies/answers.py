"""Read the answers that runs kept: summaries of all of them, and the scores of single validations.

The answers stay on their host, where a program of rlx summarises them once a run after its end
(`rlx.payload.answer_summary`). On a host that is too slow, or has no Python, only the checks of these answers are
missing. The outputs of one validation are copied when a comparison needs them.
"""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.errors import RlxError
from rlx.evidence import ItemScores, ItemTexts, read_items, read_texts
from rlx.evidence.reading.read import read_lineage
from rlx.evidence.reading.validation_outputs import SUMMARY_FILE, kept_of, wanted_scores
from rlx.hosts.sent_python import run_sent_to
from rlx.model import Place
from rlx.model.run_dir import VALIDATION_DIR
from rlx.payload.answer_summary import RULES
from rlx.runs.copies.mirror_store import read_cursor
from rlx.runs.copies.pull import fetch
from rlx.runs.queries import query_places
from rlx.runs.run import RunPaths, RunRef

if TYPE_CHECKING:
    from rlx.runs.copies.mirror import RunFiles
    from rlx.runs.index.run_index import Index

_MODULES = tuple(f"rlx.payload.{name}" for name in ("item_identity", "replayed_graders", "answer_summary"))
_PATIENCE_S, _WHOLE_S = 5.0, 60.0
_STARTING_S = 3.0
_AGAIN_S = 3600.0
_MOST_BYTES = 32 << 20
_DEADLINE_S = 3600.0


def bring_summaries(refs: Sequence[RunRef], copies: Mapping[str, RunFiles], *, whole: bool) -> None:
    """Write summaries beside the counts in the copies of runs that have ended. Raises nothing for a host.

    `whole`: wait longer, and query again where a host failed to answer.
    """
    files = {
        ref.run_id: _files(copy)
        for ref in refs
        if not (ref.place.is_local or ref.node) and _is_due(copy := copies[ref.run_id], whole)
    }
    due = [ref for ref in refs if files.get(ref.run_id)]
    if not due:
        return
    seconds = _WHOLE_S if whole else _PATIENCE_S

    def summarise(place: Place, root: str, ids: Sequence[str]) -> dict[str, Any]:
        by_size = sorted(ids, key=lambda run_id: sum(file.bytes for file in copies[run_id].outputs.values()))
        order = {"root": root, "runs": {run_id: files[run_id] for run_id in by_size}, "seconds": seconds}
        return run_sent_to(place, _MODULES, order, seconds + _STARTING_S)

    summaries: dict[str, Any] = {}
    for answer in query_places(due, summarise, seconds + _STARTING_S).answers:
        found = answer.get("runs")
        summaries |= found if isinstance(found, dict) else {}
    for ref in due:
        with suppress(OSError):
            _keep(copies[ref.run_id], files[ref.run_id], summaries.get(ref.run_id))


def _is_due(copy: RunFiles, whole: bool) -> bool:
    """Tell whether the run is over, everything else is copied, and these answers are not summarised yet."""
    if not copy.outputs or copy.problem is not None or copy.final_state is None:
        return False
    try:
        summaries = json.loads((copy.run_dir / SUMMARY_FILE).read_bytes())
        if summaries["of"] != _identity(copy):
            return True
        return not summaries["found"] and (whole or not 0 <= time.time() - summaries["at"] < _AGAIN_S)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _identity(copy: RunFiles) -> list[Any]:
    return [RULES, sorted([path, file.inode, file.bytes] for path, file in copy.outputs.items())]


def _files(copy: RunFiles) -> list[str]:
    """List the files in the order of writing, from the last attempt on that started from step 0."""
    attempts = RunPaths(copy.run_dir).attempts
    lineages = [read_lineage(folder, number) for number, folder in enumerate(attempts, start=1)]
    anew = [place for place, lineage in enumerate(lineages) if lineage and lineage.step == 0]
    folders = [str(folder.relative_to(copy.run_dir)) for folder in attempts[anew[-1] if anew else 0 :]]
    files = []
    for folder in folders:
        own = (path for path in copy.outputs if path.startswith(f"{folder}/") and Path(path).stem.isdecimal())
        files += sorted(own, key=lambda path: int(Path(path).stem))
    return files


def _keep(copy: RunFiles, files: Sequence[str], found: Any) -> None:
    """Write the summaries of each attempt, and that they were requested. Raises OSError."""
    is_sound = _is_sound(files, found)
    if is_sound:
        folders: dict[Path, dict[str, Any]] = {}
        for path, summary in zip(files, found, strict=True):
            folders.setdefault((copy.run_dir / path).parent, {})[Path(path).name] = summary
        for folder, summaries in folders.items():
            _write(folder / SUMMARY_FILE, {"rules": RULES, "files": summaries})
    _write(copy.run_dir / SUMMARY_FILE, {"of": _identity(copy), "found": is_sound, "at": time.time()})


def _is_sound(files: Sequence[str], found: Any) -> bool:
    try:
        if len(found) != len(files) or len(json.dumps(found)) > _MOST_BYTES:
            return False
        for summary in found:
            kept_of(summary)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return False
    return True


def _write(path: Path, document: Mapping[str, Any]) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    part.write_text(json.dumps(document), encoding="utf-8")
    part.replace(path)


def items_of(
    index: Index,
    refs: Sequence[RunRef],
    step: int,
    metric: str,
    narrate: Callable[[RlxError], None] = lambda problem: None,
) -> dict[str, ItemScores]:
    """Return the scores behind `metric` at `step` by run id, without the runs that kept none.

    Judge the runs first: of runs on other hosts, this is the file that the mirror read last. It is copied once, and
    again only after it has changed. Raises nothing for a host that does not answer: `narrate` gets the error.
    """
    if wanted_scores(metric) is None:
        return {}
    folders = _folders(index, refs, step, narrate)
    found = {run_id: read_items(folder, step, metric) for run_id, folder in folders.items()}
    return {run_id: items for run_id, items in found.items() if items is not None}


def texts_of(
    index: Index, refs: Sequence[RunRef], step: int, metric: str, items: Collection[str]
) -> dict[str, dict[str, ItemTexts]]:
    """Return the answers of each run to these items, shortened, by run id and item, from the files `items_of` reads."""
    folders = _folders(index, refs, step, lambda problem: None)
    return {run_id: read_texts(folder, step, metric, items) for run_id, folder in folders.items()}


def _folders(index: Index, refs: Sequence[RunRef], step: int, narrate: Callable[[RlxError], None]) -> dict[str, Path]:
    """Return the folders on this machine with the outputs of this step, by run id."""
    found = _copied(index.path.parent / "mirror", [ref for ref in refs if not ref.place.is_local], step, narrate)
    for ref in (ref for ref in refs if ref.place.is_local):
        # The last attempt that validated this step, which the evidence uses, too.
        attempts = (attempt / VALIDATION_DIR for attempt in reversed(RunPaths(ref.run_dir).attempts))
        found[ref.run_id] = next((folder for folder in attempts if (folder / f"{step}.jsonl").exists()), None)
    return {ref.run_id: folder for ref in refs if (folder := found.get(ref.run_id)) is not None}


def _copied(
    home: Path, refs: Sequence[RunRef], step: int, narrate: Callable[[RlxError], None]
) -> dict[str, Path | None]:
    """Copy the outputs that are not here yet, from all hosts at once, and return their folders by run id."""
    by_id = {ref.run_id: ref for ref in refs}

    def copy(place: Place, root: str, ids: Sequence[str]) -> Mapping[str, Path | None]:
        return {run_id: _copy(home / run_id, by_id[run_id], step) for run_id in ids}

    result = query_places(refs, copy, _DEADLINE_S)
    for problem in result.failures.values():
        narrate(problem)
    return {run_id: folder for answer in result.answers for run_id, folder in answer.items()}


def _copy(mirror: Path, ref: RunRef, step: int) -> Path | None:
    """Copy one file into a folder named after its inode and size, by which the mirror identifies it."""
    files = read_cursor(mirror).files
    # The last attempt that validated this step, as far as the mirror knows it.
    paths = [f"{attempt.relative_to(mirror)}/{VALIDATION_DIR}/{step}.jsonl" for attempt in RunPaths(mirror).attempts]
    known = [path for path in paths if path in files and files[path].bytes and not files[path].denied]
    if not known:
        return None
    path = known[-1]
    file = files[path]
    folder = (mirror / path).parent.with_name("outputs") / f"{step}-{file.inode}-{file.bytes}"
    target = folder / f"{step}.jsonl"
    if not target.exists():
        if not fetch(ref, path, file.bytes, target):
            return None
        for other in folder.parent.glob(f"{step}-*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    return folder
