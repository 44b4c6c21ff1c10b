"""The scores of a validation item by item, wherever the run is."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.evidence import ItemScores, ItemTexts, read_items, read_texts
from rlx.evidence.reading.item_scores import wanted_scores
from rlx.model import Place
from rlx.model.run_dir import VALIDATION_DIR
from rlx.runs.copies.fetch import fetch
from rlx.runs.copies.mirror_store import Copied, read_cursor
from rlx.runs.looking.fan_out import ask
from rlx.runs.run import RunPaths, RunRef

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index

_DEADLINE_S = 3600.0


def items_of(
    index: Index,
    refs: Sequence[RunRef],
    step: int,
    metric: str,
    narrate: Callable[[RlxError], None] = lambda problem: None,
) -> dict[str, ItemScores]:
    """The scores behind `metric` at `step` by run id, without the runs that kept none.

    Judge the runs first: of runs on other hosts, this is the file that the mirror saw last. It is copied once, and
    again only after it has changed. Raises nothing for a host that cannot be asked: `narrate` is told why.
    """
    if wanted_scores(metric) is None:
        return {}
    folders = _folders(index, refs, step, narrate)
    found = {run_id: read_items(folder, step, metric) for run_id, folder in folders.items()}
    return {run_id: items for run_id, items in found.items() if items is not None}


def texts_of(
    index: Index, refs: Sequence[RunRef], step: int, metric: str, items: Collection[str]
) -> dict[str, dict[str, ItemTexts]]:
    """What each run answered to these items, shortened, by run id and item, from where `items_of` has read."""
    folders = _folders(index, refs, step, lambda problem: None)
    return {run_id: read_texts(folder, step, metric, items) for run_id, folder in folders.items()}


def _folders(index: Index, refs: Sequence[RunRef], step: int, narrate: Callable[[RlxError], None]) -> dict[str, Path]:
    """The folders on this machine that have the outputs of this step, by run id."""
    near = {ref.run_id: _latest(ref.run_dir, step) for ref in refs if ref.place.is_local}
    far = _copied(index.path.parent / "mirror", [ref for ref in refs if not ref.place.is_local], step, narrate)
    return {run_id: folder for run_id, folder in (near | far).items() if folder is not None}


def _latest(run_dir: Path, step: int) -> Path | None:
    """The outputs of the last attempt that validated this step: the evidence goes by it, too."""
    folders = (attempt / VALIDATION_DIR for attempt in reversed(RunPaths(run_dir).attempts))
    return next((folder for folder in folders if (folder / f"{step}.jsonl").exists()), None)


def _copied(
    home: Path, refs: Sequence[RunRef], step: int, narrate: Callable[[RlxError], None]
) -> dict[str, Path | None]:
    """The folders of the copies by run id; all hosts are asked at once, for what is not here yet."""
    by_id = {ref.run_id: ref for ref in refs}

    def copy(place: Place, root: str, ids: Sequence[str]) -> Mapping[str, Path | None]:
        return {run_id: _copy(home / run_id, by_id[run_id], step) for run_id in ids}

    asked = ask(refs, copy, _DEADLINE_S)
    for problem in asked.failures.values():
        narrate(problem)
    return {run_id: folder for answer in asked.answers for run_id, folder in answer.items()}


def _copy(mirror: Path, ref: RunRef, step: int) -> Path | None:
    """The folder with the copy of one file. It is named after inode and size, by which the mirror knows the file."""
    files = read_cursor(mirror).files
    path = _seen(mirror, step, files)
    if path is None:
        return None
    file = files[path]
    folder = (mirror / path).parent.with_name("outputs") / f"{step}-{file.inode}-{file.bytes}"
    target = folder / f"{step}.jsonl"
    if not target.exists():
        if not fetch(ref, path, file.bytes, target):
            return None
        _remove_older(folder, step)
    return folder


def _seen(mirror: Path, step: int, files: Mapping[str, Copied]) -> str | None:
    """The outputs of the last attempt that validated this step, as far as the mirror has seen them."""
    paths = (f"{attempt.relative_to(mirror)}/{VALIDATION_DIR}/{step}.jsonl" for attempt in RunPaths(mirror).attempts)
    return next((path for path in reversed(list(paths)) if _is_seen(files.get(path))), None)


def _is_seen(file: Copied | None) -> bool:
    return file is not None and file.bytes > 0 and not file.denied


def _remove_older(folder: Path, step: int) -> None:
    for other in folder.parent.glob(f"{step}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
