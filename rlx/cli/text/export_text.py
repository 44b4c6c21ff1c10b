"""Show what was exported, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.exporting import Export
    from rlx.trackers import ExportedRun


def export_lines(found: Export) -> Iterator[str]:
    """A line for each run, the folder last."""
    for run in found.runs:
        yield f"{run.name}  {run.project}  {_values(run)} values at {len(run.points)} steps"
    yield str(found.folder)


def export_answer(found: Export) -> dict[str, Any]:
    return {
        "tracker": found.tracker,
        "folder": str(found.folder),
        "next": found.next,
        "runs": [
            {
                "run_id": run.tags["run"],
                "name": run.name,
                "project": run.project,
                "tags": run.tags,
                "steps": len(run.points),
                "values": _values(run),
            }
            for run in found.runs
        ],
    }


def _values(run: ExportedRun) -> int:
    return sum(len(point.values) for point in run.points)
