"""rlx aqn: inspect noise: a recipe's schedule, a checkout's code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import ARM_LIST, RecipeArgument, SetOption
from rlx.cli.frame.output import patience, print_json
from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.api.noise import NoisyArm
    from rlx.audit import NoiseHook

aqn = typer.Typer(name="aqn", help="Inspect noise: a recipe's schedule, a checkout's code.", rich_markup_mode=None)


@aqn.command("schedule")
def schedule(
    recipe: RecipeArgument,
    arm: Annotated[
        list[str] | None, typer.Option(metavar=ARM_LIST, help="Arms. Default: every arm with noise.")
    ] = None,
    set_: SetOption = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Model folder on this machine, whose norm weights are used instead of 1."),
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it into a .png or .svg file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of a table.")] = False,
) -> None:
    """Print sigma step by step, and how much of it rounding leaves.

    For each stage: the share of weights that differ after rounding to a dtype, and the standard deviation that remains
    of `sigma`. Factors of single layers (aqn.multipliers) are not included.
    """
    from rlx.api.noise import noise_schedule, norm_weights
    from rlx.cli.text.noise_text import markdown_text, print_terminal, schedule_answer
    from rlx.cli.text.pictures import IN_TERMINAL, check_files

    if as_json and as_markdown:
        raise UsageError("--md and --json exclude each other", "name one of them")
    if plot == IN_TERMINAL:
        raise UsageError("--plot -: in a terminal the table shows all of it", "name a .png or .svg file")
    check_files(plot, None)
    norms = norm_weights(weights) if weights else None
    arms = noise_schedule(recipe, arm or (), sets=set_ or (), weights=norms)
    if as_json:
        print_json(schedule_answer(arms))
    elif as_markdown:
        print(markdown_text(arms), end="")
    else:
        print_terminal(arms)
    if plot:
        _draw(plot, arms)


def _draw(plot: str, arms: Sequence[NoisyArm]) -> None:
    from rlx.api.generated_files import write_scene
    from rlx.report import schedule_scene

    write_scene(plot, schedule_scene({arm.name: arm.noise.sigmas for arm in arms}))


@aqn.command("audit")
def audit(
    checkout: Annotated[Path, typer.Argument(help="Folder of a checkout that has noise code.")],
    python: Annotated[
        str,
        typer.Option(
            metavar="PROGRAM",
            help="Python that has transformers, and vLLM if its model is to be tried.",
            show_default="the Python that runs rlx",
        ),
    ] = sys.executable,
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            "--sources", metavar="DIR", help="Also read class names here, such as in an unpacked wheel (repeatable)."
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The module, if a checkout has more than one.")
    ] = None,
    read: Annotated[bool, typer.Option("--read", help="Only read: execute nothing of the checkout.")] = False,
    sigma_start: Annotated[float, typer.Option(help="First sigma above 0.")] = 1e-2,
    sigma_end: Annotated[float, typer.Option(help="Last sigma.")] = 1e-4,
    stages: Annotated[int, typer.Option(help="Stages, of which the first has no noise.")] = 10,
    steps: Annotated[int, typer.Option(help="Training steps.")] = 100,
    time_limit: Annotated[float, typer.Option(metavar="SECONDS", help="For each model.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before code of the checkout is executed.")
    ] = False,
) -> None:
    """Check what the noise code of a checkout does to a real model, by reading and executing it.

    The code runs in its own process with a tiny Qwen2 of transformers, and of vLLM if --python has it. It gets no
    variables of this shell and an empty home folder, but it can read your files: it is no sandbox.
    """
    from rlx.api.noise import AuditSchedule, read_noise_code, run_noise_code
    from rlx.cli.text.noise_text import audit_answer, print_reading, print_runs

    reading = read_noise_code(checkout, file=file, python=python, sources=sources or ())
    if not as_json:
        print_reading(reading)
    if not read and not yes:
        _ask_before_executing(reading.hook, python)
    runs = None
    if not read:
        schedule = AuditSchedule(sigma_start, sigma_end, stages, steps)
        with patience("making tiny models and calling the noise code on them, up to a minute …"):
            runs = run_noise_code(reading.hook, python=python, schedule=schedule, time_limit=time_limit)
    if as_json:
        print_json(audit_answer(reading, runs))
    elif runs:
        print_runs(runs)


def _ask_before_executing(hook: NoiseHook, python: str) -> None:
    """Ask for consent. Raise UsageError if there is no terminal, RlxError if the answer is no."""
    from rlx.cli.text.noise_text import question

    if not sys.stdin.isatty():
        raise UsageError(
            f"{hook.checkout}: the audit executes {hook.file}, and there is no terminal to ask at",
            "-y executes it without asking; --read only reads it",
        )
    if not typer.confirm(question(hook, python), err=True):
        raise RlxError("nothing was executed", "--read only reads it")
