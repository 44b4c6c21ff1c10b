"""rlx aqn: the noise of a recipe, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rlx.api.noise import NoisyArm

aqn = typer.Typer(name="aqn", help="Look at the noise of a recipe: its schedule.", rich_markup_mode=None)


@aqn.callback()
def _alone() -> None:
    """A group, so that `rlx aqn` names its commands."""


@aqn.command("schedule")
def schedule(
    recipe: Annotated[str, typer.Argument(help="Recipe file, name of a recipe that comes with rlx, or - for stdin.")],
    arm: Annotated[list[str] | None, typer.Option(help="Arm; again for more. Default: every arm with noise.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key.")] = None,
    weights: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Model folder on this machine: its own norm weights, not 1.")
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it into a .png or .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of a table.")] = False,
) -> None:
    """Print sigma step by step, and how much of it rounding leaves.

    For each stage: the share of weights that differ after rounding to a dtype, and the standard deviation that
    arrives, where `sigma` was asked for. Factors on single layers (aqn.multipliers) come on top.
    """
    from rlx.api.noise import noise_schedule
    from rlx.api.norm_weights import norm_weights
    from rlx.cli.frame.output import print_json
    from rlx.cli.text.aqn_text import answer, markdown_text, print_terminal
    from rlx.cli.text.pictures import IN_TERMINAL, check_files
    from rlx.errors import UsageError

    if as_json and as_markdown:
        raise UsageError("--md and --json exclude each other", "name one of them")
    if plot == IN_TERMINAL:
        raise UsageError("--plot -: the table says it all in a terminal", "name a .png or .svg file")
    check_files(plot, None)
    norms = norm_weights(weights) if weights else None
    arms = noise_schedule(recipe, arm or (), sets=set_ or (), weights=norms)
    if as_json:
        print_json(answer(arms))
    elif as_markdown:
        print(markdown_text(arms), end="")
    else:
        print_terminal(arms)
    if plot:
        _draw(plot, arms)


def _draw(plot: str, arms: Sequence[NoisyArm]) -> None:
    from rlx.api.drawn_files import write_scene
    from rlx.report import schedule_scene

    write_scene(plot, schedule_scene({arm.name: arm.noise.sigmas for arm in arms}))
