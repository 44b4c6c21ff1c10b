"""Options that several commands take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer

from rlx.cli.frame.list_options import NUMBER_LIST
from rlx.cli.frame.output import be_quiet
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
Systems = Annotated[
    bool,
    typer.Option(
        "--systems",
        help="Compare whole systems, such as two models: every difference is listed, none credited, and the evaluation "
        "must be equal.",
    ),
]
Seeds = Annotated[
    list[int] | None,
    typer.Option("--seed", metavar=NUMBER_LIST, min=0, help="Only runs with these seeds. Default: all."),
]


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with a hidden `-q`, which `rlx` itself has too: it may also come last on the line."""

    @wraps(command)
    def with_option(*, quiet: bool, **values: Any) -> None:
        if quiet:
            be_quiet()
        command(**values)

    signature = inspect.signature(command, eval_str=True)
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Quiet)
    parameters = [*signature.parameters.values(), option]
    # Typer reads both: the signature for the order, the annotations for the types.
    with_option.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_option.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_option


_Quiet = Annotated[bool, typer.Option("--quiet", "-q", hidden=True)]


def split_metrics(given: Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """The metric to compare, and the patterns of those to draw. Raises UsageError for two to compare."""
    from rlx.evidence.metrics import is_pattern

    names = [each for each in given or () if not is_pattern(each)]
    if len(names) > 1:
        raise UsageError(
            f"--metric {' and '.join(names)}: one metric is compared", f"to draw curves, write --metric '*{names[1]}*'"
        )
    return next(iter(names), None), tuple(each for each in given or () if is_pattern(each))
