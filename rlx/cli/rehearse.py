"""rlx rehearse: run a two-step smoke test of a recipe with a tiny model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import RecipeArgument, SetOption, parse_age
from rlx.cli.frame.output import narrate, print_json, print_text
from rlx.cli.text.table_text import plain_table_lines
from rlx.errors import ExitCode
from rlx.model import finding_text
from rlx.table import table_of_rows

if TYPE_CHECKING:
    from rlx.api.rehearsing import RehearsalResult

_MARKS = {True: "passed", False: "FAILED", None: "-"}
_WIDEST = 48


def rehearse(
    recipe: RecipeArgument,
    arm: Annotated[str | None, typer.Option(help="The arm to rehearse. Default: the control.")] = None,
    sets: SetOption = None,
    engine: Annotated[
        str | None,
        typer.Option(help="What generates: vllm (its CPU build), or cpu (rlx's own). Default: what is installed."),
    ] = None,
    timeout: Annotated[str, typer.Option(help="Give up after this long (90s, 10m).")] = "15m",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the run's folder even if everything passed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Run a two-step smoke test of a recipe with a tiny model.

    On this machine's CPU: the real verl 0.9.1 with the recipe's overrides, reward function, data schema and noise; a
    tiny random model of the same class, and a smaller batch. Reports what was changed, what passed, and what a CPU
    cannot show. Exit code 5 if it fails.
    """
    from rlx.api.rehearsing import rehearse as rehearse_recipe

    limit_s = parse_age(timeout)
    done = rehearse_recipe(recipe, arm, sets=sets or (), engine=engine, limit_s=limit_s, keep=keep, tell=narrate)
    if as_json:
        print_json(done.answer())
    else:
        print_text("\n".join(text_lines(done)))
    if not done.result.passed:
        raise typer.Exit(ExitCode.PREFLIGHT_FAILED)


def text_lines(done: RehearsalResult) -> Iterator[str]:
    made, result = done.rehearsal, done.result
    recipe = made.resolved.recipe
    outcome = "passed" if result.passed else "FAILED"
    yield f"{recipe.name}, arm {made.resolved.arm}: the smoke test {outcome} in {done.seconds:.0f} s"
    yield f"  batch sizes divided by {made.factor}; {made.model.shown}; answers by {made.engine.shown}"
    yield "checks"
    yield from _lines([(_MARKS[check.passed], check.name, check.detail) for check in result.checks])
    for finding in result.findings:
        yield from finding_text(finding).split("\n")
    yield "what was changed"
    rows = [(change.key, _short(change.recipe), _short(change.rehearsed), change.why) for change in made.changes]
    yield from _lines(rows, ("key", "recipe", "rehearsed", "why"))
    if made.untold:
        yield "not covered"
        yield from _lines([(untold.what, untold.why) for untold in made.untold])
    if done.folder:
        yield f"kept: {done.folder}"


def _lines(rows: Sequence[tuple[str, ...]], headings: Sequence[str] = ()) -> Iterator[str]:
    if rows or headings:
        yield from plain_table_lines(table_of_rows(headings or [""] * len(rows[0]), rows), indent=2)


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _WIDEST else f"…{text[1 - _WIDEST :]}"
