"""rlx import: import the logs of a finished run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from rlx.cli.frame.output import narrate, print_json

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def import_(
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="Console logs or metrics.jsonl of one run, also as .gz.")
    ],
    name: Annotated[str, typer.Option(help="Name of the experiment. Arms of one name are shown together.")],
    arm: Annotated[str | None, typer.Option(help="Which arm it is. Default: main, or the recipe's only one.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe with the expectations of the run.")] = None,
    val_size: Annotated[
        int | None, typer.Option(min=1, help="Items of its validation set, if neither recipe nor log has the number.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Its seed. Default: the recipe's, else 1.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of the run id.")] = False,
) -> None:
    """Import the logs of a finished run.

    From then on status, logs, diagnose and compare know it. The logs are copied and never changed; several are the
    attempts of one run. Without a recipe it is checked against the configuration that it prints: unverified at best.
    For a log that still grows: rlx track.
    """
    from rlx.api.tracking import import_logs

    with tidy_end():
        taken = import_logs(logs, name, arm=arm, recipe=recipe, seed=seed, validation_items=val_size)
    ref = taken.ref
    if as_json:
        answer = {"run_id": ref.run_id, "arm": ref.arm, "seed": ref.seed, "run_dir": str(ref.run_dir)}
        print_json({**answer, "remarks": taken.remarks})
    else:
        print(ref.run_id)
    for remark in taken.remarks:
        narrate(f"rlx: {remark}")
    narrate(f"see: rlx status -v {ref.run_id} · rlx compare CONTROL {ref.arm}")


@contextmanager
def tidy_end() -> Iterator[None]:
    """Make TERM and HUP raise SystemExit in this block, so that nothing incomplete is left."""
    before = {number: signal.signal(number, _end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
