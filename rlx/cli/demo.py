"""rlx demo: show what rlx detects, on recorded runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.output import console, narrate, print_json, print_text
from rlx.cli.text.table_text import paragraph

if TYPE_CHECKING:
    from rlx.api.demo import DemoResult


def demo(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="The folder to write; nothing else is touched.")
    ] = Path("rlx-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Show what rlx detects, on recorded runs.

    A correct pair of runs, and three that are not: an arm named AQN without any noise, one that was cut short, one that
    was evaluated differently. Nothing is trained and no host is queried. The runs are kept in a folder of their own and
    do not appear among yours.
    """
    from rlx.api.demo import demo as show

    shown: list[DemoResult] = []
    for scene in show(to):
        shown.append(scene)
        if not as_json:
            print_scene(scene)
    if as_json:
        print_json(demo_answer(shown))
        return
    print_next(to)
    narrate(f"written: {', '.join(scene.page.name for scene in shown)} in {to}; remove the folder when you are done")


def print_scene(shown: DemoResult) -> None:
    """Print the claim of the scene, what happened, and what `status` and `compare` report."""
    from rlx.cli.text.run_text import tables

    out, scene = console(), shown.scene
    title = paragraph(f'{scene.name}: "{scene.told}" – what happened: {scene.happened}', out.width)
    title.stylize("bold", 0, title.plain.index("–"))
    out.print(title)
    # Recorded runs have no age.
    rows = [replace(row, observation=replace(row.observation, seconds_since_start=None)) for row in shown.rows]
    out.print(tables(rows, verbose=False, causes={}, width=out.width))
    print_text(f"rlx reports: {said(shown)}\n")


def said(shown: DemoResult) -> str:
    """Return the verdict that rules the pair out; if none does, what the comparison supports."""
    for row in shown.rows:
        if not row.verdict.is_result(ended=True):
            return f"{row.ref.arm} is {row.verdict.sentence}"
    errors = [finding for contrast in shown.compared.comparison.contrasts for finding in contrast.errors]
    if errors:
        return f"not comparable: {errors[0].message} ({errors[0].id})"
    return "; ".join(shown.compared.sentences)


def print_next(folder: Path) -> None:
    """Print what to type next, with these runs and with one's own."""
    from rlx.api.demo import variables

    exports = "".join(f"  export {name}={shlex.quote(value)}\n" for name, value in variables(folder).items())
    print_text(
        f"Look at them yourself:\n{exports}"
        "  rlx status -a -v\n"
        "  rlx compare no-noise-baseline-s1 no-noise-aqn-s1\n"
        "  rlx metrics no-noise-aqn-s1 entropy\n"
        "With logs that you have: rlx import run.log --name mine\n"
        "With a recipe: rlx init",
        wraps=False,
    )


def demo_answer(shown: Sequence[DemoResult]) -> dict[str, Any]:
    """Return each scene with its verdicts and what the comparison supports, for --json."""
    from rlx.cli.text.run_document import verdict_document

    return {
        "scenes": [
            {
                "name": one.scene.name,
                "happened": one.scene.happened,
                "verdicts": {row.ref.arm: verdict_document(row.verdict) for row in one.rows},
                "reportable": one.compared.reportable,
                "said": said(one),
                "page": str(one.page),
            }
            for one in shown
        ]
    }
