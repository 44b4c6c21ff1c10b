"""rlx migrate: a recipe for another training engine, as a change of its file that one can read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlx.errors import ExitCode, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.backends.verl.migrate import Sizes
    from rlx.cli.migration import Migrated


def migrate(
    recipe: Annotated[str, typer.Argument(help="Recipe file, or name of a bundled recipe.")],
    engine: Annotated[Literal["megatron"], typer.Option(help="The engine to migrate to.")],
    tp: Annotated[int | None, typer.Option(min=1, help="Tensor parallel size. Default: the first of 4, 2, 1.")] = None,
    pp: Annotated[int, typer.Option(min=1, help="Pipeline parallel size.")] = 1,
    ep: Annotated[int, typer.Option(min=1, help="Expert parallel size.")] = 1,
    micro_batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples a device and pass. Default: half of before.")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A further change of the file.")
    ] = None,
    write: Annotated[Path | None, typer.Option(metavar="NEW.yaml", help="Write the new recipe there.")] = None,
) -> None:
    """Show what an FSDP recipe becomes with Megatron, as a diff.

    Comments and order stay. The result is checked as by `rlx validate`: exit 2 if it is invalid, and nothing is
    written then. The default tensor parallel size is the largest of which nothing is known to be wrong.
    """
    from rlx.backends.verl.migrate import Sizes
    from rlx.cli.output import narrate, print_text

    del engine  # there is one
    if write is not None and write.exists():
        raise UsageError(f"{write}: exists already, nothing was written", "name another file, or move this one")
    result = _first_valid(
        recipe, tp, partial(Sizes, pp=pp, ep=ep, micro_batch_size=micro_batch_size), sets or (), write
    )
    print_text(result.diff.removesuffix("\n"))
    for remark in result.remarks:
        narrate(f"rlx: {remark}")
    if not result.valid:
        raise typer.Exit(ExitCode.USAGE)
    if write is not None:
        _write(write, result.text)


def _first_valid(
    recipe: str, tp: int | None, sizes: Callable[[int], Sizes], sets: Sequence[str], write: Path | None
) -> Migrated:
    """The guide's tensor parallel size, or a smaller one where it does not pass the checks; the last if none does."""
    from rlx.backends.verl.migrate import TENSOR_PARALLEL
    from rlx.cli.migration import migrated

    tried = [tp] if tp else TENSOR_PARALLEL
    for size in tried:
        result = migrated(recipe, sizes(size), sets, write)
        if result.valid:
            break
    return result


def _write(path: Path, text: str) -> None:
    from rlx.cli.output import narrate

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        raise RlxError(f"{path}: cannot be written: {problem.strerror}", "name another file") from None
    narrate(f"rlx: wrote {path}")
