"""Options of the commands that state what runs show (`compare` and `report`), and the exit code of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import NUMBER_LIST
from rlx.cli.frame.output import narrate
from rlx.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared, Uncompared

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
        help="Exit 0 even if runs are unverified, unless something else prevents it. The output says so either way.",
    ),
]
Systems = Annotated[
    bool,
    typer.Option(
        "--systems",
        help="Compare whole systems, such as two models: every difference is listed, none is "
        "credited, and the evaluation must be equal.",
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option("--seed", metavar=NUMBER_LIST, min=0, help="Only runs with these seeds. Default: all."),
]


def split_metrics(given: Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the metric to compare, and the patterns of those to draw. Raise UsageError for two to compare."""
    from rlx.evidence.metrics import is_pattern

    names = [each for each in given or () if not is_pattern(each)]
    if len(names) > 1:
        raise UsageError(
            f"--metric {' and '.join(names)}: one metric is compared", f"to draw curves, write --metric '*{names[1]}*'"
        )
    return next(iter(names), None), tuple(each for each in given or () if is_pattern(each))


def reportable_exit(compared: Compared | Uncompared, allow_unverified: bool) -> typer.Exit:
    """Return the exit; if only unverified runs prevent exit code 0, name the option that accepts them."""
    code = compared.outcome(allow_unverified=allow_unverified)
    if code is not ExitCode.OK and compared.outcome(allow_unverified=True) is ExitCode.OK:
        why = "runs are unverified, or the control collapsed"
        narrate(f"exit code {code:d}: {why}, and nothing else prevents reporting; with --allow-unverified it is 0")
    return typer.Exit(code)
