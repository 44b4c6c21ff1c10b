"""`rlx data`: make data sets (tiny-cpu, gsm8k), and check them for a recipe."""

from __future__ import annotations

import typer

from rlx.cli.data.check import check
from rlx.cli.data.gsm8k import gsm8k
from rlx.cli.data.tiny_cpu import tiny_cpu

data = typer.Typer(
    name="data",
    help="Make data sets (tiny-cpu, gsm8k), and check them for a recipe.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
data.command("tiny-cpu")(tiny_cpu)
data.command("gsm8k")(gsm8k)
data.command("check")(check)

__all__ = ["data"]
