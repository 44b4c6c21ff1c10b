"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

Metric = Annotated[
    str | None, typer.Option(help="Metric name or a part of it. Default: the validation metric of the log.")
]
Seeds = Annotated[
    list[int] | None,
    typer.Option("--seed", metavar="N...", min=0, help="Only runs with these seeds. Default: all."),
]
