"""rlx pull: copy logs, metrics, events and outputs of runs to this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import NamedRunsArgument
from rlx.cli.frame.output import is_quiet, narrate, print_json
from rlx.errors import ExitCode

if TYPE_CHECKING:
    from rlx.runs.copies.pull import Pulled

_WORDS = {
    "denied": "the user on the host may not read it",
    "foreign": "another file of that name exists here and was not replaced; choose another folder with --to",
    "differs": "the copy differed from the file on the host twice; it was not kept",
}


def pull(
    names: NamedRunsArgument,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder in which each run gets a folder.")] = Path(),
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Also the checkpoints, often many GB.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Copy logs, metrics, events and outputs of runs to this machine.

    Into ./RUN_ID/, each file verified by its SHA-256 on the host. After an interruption the same command resumes; a log
    that has grown is completed. Exit code: 1 a file could not be fetched or verified · 4 the host cannot be reached.
    """
    from rlx.api.runs import find_runs
    from rlx.api.runs import pull as pull_runs

    results: dict[str, Sequence[Pulled]] = {}
    try:
        for ref in find_runs(names):
            with _progress(ref.run_id) as tell:
                results |= pull_runs(ref, to, checkpoints=checkpoints, progress=tell)
            if not as_json:
                _print(to / ref.run_id, results[ref.run_id])
    except KeyboardInterrupt:
        narrate("\ninterrupted; the files copied so far are kept, and the same command resumes")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        folders = {run_id: str((to / run_id).absolute()) for run_id in results}
        print_json({"runs": [{"run_id": id, "folder": folders[id], "files": files} for id, files in results.items()]})
    if not all(file.is_good for files in results.values() for file in files):
        raise typer.Exit(ExitCode.ERROR)


def _print(folder: Path, files: Sequence[Pulled]) -> None:
    good = [file for file in files if file.is_good]
    size = sum(file.bytes for file in good)
    amount = f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.2f} GB"
    print(f"{folder}  {len(good)} file{'s' * (len(good) != 1)}, {amount}, verified")
    for file in files:
        if not file.is_good:
            narrate(f"rlx: {folder / file.path}: {_WORDS[file.outcome]}")


@contextmanager
def _progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty() or is_quiet():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(label), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
