"""rlx aqn: the noise of a recipe, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rlx.cli.text.aqn_text import NoisyArm
    from rlx.plan.rounding import Weights
    from rlx.recipe import ResolvedRecipe

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
    from rlx.cli.frame.output import print_json
    from rlx.cli.text.aqn_text import answer, markdown_text, print_terminal
    from rlx.cli.text.pictures import IN_TERMINAL, check_files
    from rlx.errors import UsageError

    if as_json and as_markdown:
        raise UsageError("--md and --json exclude each other", "name one of them")
    if plot == IN_TERMINAL:
        raise UsageError("--plot -: the table says it all in a terminal", "name a .png or .svg file")
    check_files(plot, None)
    arms = _noisy_arms(recipe, arm or (), set_ or (), _norms(weights))
    if as_json:
        print_json(answer(arms))
    elif as_markdown:
        print(markdown_text(arms), end="")
    else:
        print_terminal(arms)
    if plot:
        _draw(plot, arms)


def _norms(folder: Path | None) -> Weights | None:
    from rlx.api.norm_weights import norm_weights

    return norm_weights(folder) if folder else None


def _noisy_arms(recipe: str, arms: Sequence[str], sets: Sequence[str], norms: Weights | None) -> list[NoisyArm]:
    """The arms that were named, else those with noise. Raises UsageError where there is none."""
    from rlx.errors import UsageError
    from rlx.recipe import load_recipe

    file = load_recipe(recipe, sets)
    resolved = [file.resolve(name) for name in dict.fromkeys(arms or file.arms)]
    noisy = [_noisy_arm(one, norms) for one in resolved if one.recipe.aqn is not None]
    if not noisy:
        raise UsageError(
            f"{recipe}: no noise in {', '.join(one.arm for one in resolved)}", "give an arm an aqn section"
        )
    return noisy


def _noisy_arm(resolved: ResolvedRecipe, norms: Weights | None) -> NoisyArm:
    from rlx.api.target import named_target
    from rlx.backends.protocol import load_backend
    from rlx.cli.text.aqn_text import NoisyArm
    from rlx.errors import UsageError
    from rlx.plan.rounding import TYPICAL

    site = named_target("local", None).site
    noise = load_backend(resolved.recipe.backend.kind).plan(resolved, site).expectations.noise
    if noise is None:
        raise UsageError(f"arm {resolved.arm}: the length of the run is not known", "give data.train_rows")
    if not noise.sigmas:
        raise UsageError(
            f"arm {resolved.arm}: the run has no step that noise could be on", "rlx validate RECIPE says why"
        )
    weights: dict[str, Weights] = {kind: {TYPICAL[kind]: 1} for kind in noise.layer_types}
    if norms and "rmsnorm" in weights:
        weights["rmsnorm"] = norms
    return NoisyArm(resolved.arm, resolved.recipe.model.dtype, noise, weights)


def _draw(plot: str, arms: Sequence[NoisyArm]) -> None:
    from rlx.cli.text.pictures import write_scene
    from rlx.report import schedule_scene

    write_scene(plot, schedule_scene({arm.name: arm.noise.sigmas for arm in arms}))
