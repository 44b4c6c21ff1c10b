"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from rlx.errors import UsageError

Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="The metric to compare, or a part of its name. Default: the validation metric of the log. With wildcards, "
        "such as '*entropy*', it chooses training curves to draw, and may be repeated.",
    ),
]
AllowUnverified = Annotated[
    bool,
    typer.Option(
        "--allow-unverified",
        help="Exit 0 although runs are unverified, where nothing else forbids it. The output has the word either way.",
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option("--seed", metavar="N...", min=0, help="Only runs with these seeds. Default: all."),
]


def split_metrics(given: Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """The metric to compare, and the patterns of those to draw. Raises UsageError for two to compare."""
    from rlx.evidence.metrics import is_pattern

    names = [each for each in given or () if not is_pattern(each)]
    if len(names) > 1:
        raise UsageError(
            f"--metric {' and '.join(names)}: one metric is compared", f"to draw curves, write --metric '*{names[1]}*'"
        )
    return next(iter(names), None), tuple(each for each in given or () if is_pattern(each))
