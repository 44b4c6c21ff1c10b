"""rlx export: export runs for a tracker, offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import TRACKERS, RunsArgument
from rlx.cli.frame.output import narrate, patience, print_json, print_text

if TYPE_CHECKING:
    from rlx.api.metrics import Export
    from rlx.trackers import ExportedRun


def export(
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="TRACKER", help="tensorboard, wandb, swanlab, mlflow or trackio.", autocompletion=TRACKERS
        ),
    ],
    runs: RunsArgument = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="A new folder. Default: TRACKER-TIME here.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Default: the experiment of each run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Export runs for a tracker, offline.

    Every run carries its verdict, arm, seed, experiment and launch as tags, and the verdict in its name unless it is
    valid. Nothing leaves this machine: the last line is the command that shows or sends them. TensorBoard needs no
    package, every other tracker its own.
    """
    from rlx.api.metrics import export as export_runs

    with patience("still writing"):
        found = export_runs(runs or None, to=to, folder=out, project=project, tell=narrate)
    if as_json:
        print_json(export_answer(found))
        return
    for line in export_lines(found):
        print_text(line)
    narrate(f"next: {found.next}")


def export_lines(exported: Export) -> Iterator[str]:
    """Yield a line per run, then the folder."""
    for run in exported.runs:
        yield f"{run.name}  {run.project}  {_values(run)} values at {len(run.points)} steps"
    yield str(exported.folder)


def export_answer(exported: Export) -> dict[str, Any]:
    return {
        "tracker": exported.tracker,
        "folder": str(exported.folder),
        "next": exported.next,
        "runs": [
            {
                "run_id": run.tags["run"],
                "name": run.name,
                "project": run.project,
                "tags": run.tags,
                "steps": len(run.points),
                "values": _values(run),
            }
            for run in exported.runs
        ],
    }


def _values(run: ExportedRun) -> int:
    return sum(len(point.values) for point in run.points)
