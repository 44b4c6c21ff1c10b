"""rlx demo: show what rlx detects, on recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rlx.api.demo import Shown


def demo(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="The folder to write; nothing else is touched.")
    ] = Path("rlx-demo"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Show what rlx detects, on recorded runs.

    A correct pair of runs, and three that are not: an arm named AQN without any noise, one that was cut short, one that
    was evaluated in another way. Nothing is trained and no host is asked. The runs are kept in a folder of their own
    and never appear among yours.
    """
    from rlx.api.demo import demo as show
    from rlx.cli.frame.output import narrate, print_json
    from rlx.cli.text.demo_text import demo_answer, print_next, print_scene

    shown: list[Shown] = []
    for scene in show(to):
        shown.append(scene)
        if not as_json:
            print_scene(scene)
    if as_json:
        print_json(demo_answer(shown))
        return
    print_next(to)
    narrate(f"written: {', '.join(scene.page.name for scene in shown)} in {to}; remove the folder when you are done")
