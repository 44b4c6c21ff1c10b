"""rlx export: export runs for a tracker, offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlx.cli.frame.completion import RUNS, TRACKERS


def export(
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="TRACKER", help="tensorboard, wandb, swanlab, mlflow or trackio.", autocompletion=TRACKERS
        ),
    ],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Arm, run name or id. Default: the latest launch.", autocompletion=RUNS
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="A new folder. Default: TRACKER-TIME here.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Default: the experiment of each run.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Export runs for a tracker, offline.

    Every run carries its verdict, arm, seed, experiment and launch as tags, and the verdict in its name where it is not
    valid. Nothing leaves this machine: the last line is the command that shows or sends them. TensorBoard takes no
    package, each other tracker its own.
    """
    from rlx.api.exporting import export as export_runs
    from rlx.cli.frame.output import narrate, patience, print_json, print_text
    from rlx.cli.text.export_text import export_answer, export_lines

    with patience("still writing"):
        found = export_runs(runs or None, to=to, folder=out, project=project, tell=narrate)
    if as_json:
        print_json(export_answer(found))
        return
    for line in export_lines(found):
        print_text(line)
    narrate(f"next: {found.next}")
