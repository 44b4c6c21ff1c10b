"""rlx migrate: show how an FSDP recipe changes for Megatron, as a diff."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlx.cli.frame.options import RECIPES
from rlx.cli.frame.output import narrate, print_json, print_text
from rlx.errors import ExitCode


def migrate(
    recipe: Annotated[str, typer.Argument(help="Recipe file, or name of a bundled recipe.", autocompletion=RECIPES)],
    engine: Annotated[Literal["megatron"], typer.Option(help="The engine to migrate to.")],
    tp: Annotated[
        int | None, typer.Option(min=1, help="Tensor parallel size. Default: 4, or 2 or 1 if that fits better.")
    ] = None,
    pp: Annotated[int, typer.Option(min=1, help="Pipeline parallel size.")] = 1,
    ep: Annotated[int, typer.Option(min=1, help="Expert parallel size.")] = 1,
    micro_batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples a device and pass. Default: half of before.")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A further change of the file.")
    ] = None,
    write: Annotated[Path | None, typer.Option(metavar="NEW.yaml", help="Write the new recipe there.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a diff.")] = False,
) -> None:
    """Show how an FSDP recipe changes for Megatron, as a diff.

    Comments and order stay. The result is checked as by `rlx validate`: exit code 2 if it is invalid, and nothing is
    written then. Without --tp it is the largest tensor parallel size with the fewest findings.
    """
    from rlx.api.recipes import migrate as migrate_recipe
    from rlx.model import finding_text

    del engine  # there is one
    result = migrate_recipe(
        recipe, tp=tp, pp=pp, ep=ep, micro_batch_size=micro_batch_size, sets=sets or (), target=write
    )
    if as_json:
        answer = {"diff": result.diff, "advice": result.advice, "findings": result.findings, "valid": result.is_valid}
        print_json({**answer, "written": str(write) if write and result.is_valid else None})
    else:
        print_text(result.diff.removesuffix("\n"), wraps=False)
    for remark in (*result.advice, *map(finding_text, result.findings)):
        narrate(f"rlx: {remark}")
    if not result.is_valid:
        raise typer.Exit(ExitCode.USAGE)
    if write is not None:
        narrate(f"rlx: wrote {write}")
