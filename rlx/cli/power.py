"""rlx power: compute what a recipe's seeds and evaluation size can detect."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.options import NUMBER_LIST, RecipeArgument, SetOption
from rlx.cli.frame.output import narrate, print_json, print_text

_Seeds = Annotated[
    list[int] | None,
    typer.Option("--seeds", metavar=NUMBER_LIST, help="Seeds per arm. Default: 2 3 5 8 10 and the experiment's."),
]
_Effect = Annotated[float | None, typer.Option(metavar="POINTS", help="The true difference, treatment minus control.")]
_Spread = Annotated[
    float | None,
    typer.Option(metavar="SD", help="Standard deviation between seeds, in points. Default: that of earlier runs."),
]
_Margin = Annotated[float | None, typer.Option(metavar="POINTS", help="The margin of non-inferiority or equivalence.")]
_Test = Annotated[
    str | None, typer.Option(help="superiority (default without a margin), non-inferiority or equivalence.")
]
_Several = Annotated[str | None, typer.Option(help="Correction for several treatments: dunnett (default) or holm.")]


def power(
    recipe: RecipeArgument,
    seeds: _Seeds = None,
    effect: _Effect = None,
    spread: _Spread = None,
    margin: _Margin = None,
    test: _Test = None,
    several: _Several = None,
    set_: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compute what a recipe's seeds and evaluation size can detect.

    Which difference is detected with 80 % power, how likely the expected one (--effect) is detected, and how many seeds
    that needs. A recipe's `experiment` has the design, which options override. The spread between seeds is that of your
    comparable runs (same model, data, reward and evaluation; the upper 80 % bound), or --spread. Nothing is launched.
    """
    from rlx.api.power import power as power_of
    from rlx.cli.text.experiment_text import power_answer, power_text

    found = power_of(
        recipe,
        seeds=seeds or (),
        effect=effect,
        spread=spread,
        margin=margin,
        test=test,
        several=several,
        sets=set_ or (),
        tell=narrate,
    )
    if as_json:
        print_json(power_answer(found))
    else:
        print_text(power_text(found))
