"""rlx experiments: list registered experiments and their runs."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.options import EXPERIMENTS
from rlx.cli.frame.output import console, narrate, patience, print_json


def experiments(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Recipe's name, or the beginning of a digest. Default: all.",
            autocompletion=EXPERIMENTS,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """List registered experiments and their runs.

    A recipe's `experiment` is registered by its first launch: question, test, seeds, and how the arms are graded. The
    table has each registered run, also a missing one; below it are failed, relaunched and added runs.
    """
    from rlx.api.experiments import experiments as find
    from rlx.cli.text.experiment_text import experiment_document, experiment_parts

    with patience():
        found = find(name)
    if as_json:
        print_json({"experiments": [experiment_document(one) for one in found]})
    elif not found:
        narrate("no experiment is registered; launching a recipe with an `experiment` registers it")
    out = console()
    for one in () if as_json else found:
        out.print(experiment_parts(one, out.width))
