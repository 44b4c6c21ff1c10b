"""Take in a run that somebody started by hand, and follow its log."""

from __future__ import annotations

from pathlib import Path

from rlx.errors import RlxError, UsageError
from rlx.model import LaunchPlan, Place
from rlx.runs.adopted.adopted_dirs import run_dirs
from rlx.runs.adopted.adopted_store import take_in
from rlx.runs.adopted.foreign_log import ask_log
from rlx.runs.adopted.log_copy import read_copy, refresh
from rlx.runs.adopted.log_source import Source, read_source, write_source
from rlx.runs.index.run_index import Index
from rlx.runs.run import RunRef


def adopt(index: Index, place: Place, path: str, plan: LaunchPlan) -> RunRef:
    """Copy the log for the first time and list the run; the log itself is only read.

    Raises RlxError if the log cannot be read, HostError if the place cannot be asked, UsageError if the log is adopted
    already.
    """
    source = Source(place, (path,))
    _refuse_twice(index, source)

    def copy(folder: Path) -> None:
        write_source(folder, source)
        copied, problem = refresh(folder)
        if problem is not None:
            raise problem
        if copied.gone:
            raise RlxError(f"{source}: there is no such file", "name the console log that the run writes")

    return take_in(index, plan, place, copy)


def _refuse_twice(index: Index, source: Source) -> None:
    for run_dir in run_dirs(index.path.parent):
        if read_source(run_dir) == source and _is_same_log(run_dir, source):
            raise UsageError(f"{source} is adopted already, as {run_dir.name}", f"rlx status {run_dir.name}")


def _is_same_log(run_dir: Path, source: Source) -> bool:
    """The file of an earlier, ended run may belong to the next one by now."""
    copy = read_copy(run_dir)
    if copy.is_written or copy.left:
        return True
    answer = ask_log(source.place, source.paths[0], copy.extent)
    return answer is not None and answer.start == copy.extent.bytes
