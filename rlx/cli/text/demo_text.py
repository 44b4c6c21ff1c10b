"""The scenes of `rlx demo` as text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api.demo import Shown


def print_scene(shown: Shown) -> None:
    """What its owner said, what happened, and what `status` and `compare` say of it."""
    from rich.text import Text

    from rlx.cli.frame.output import console
    from rlx.cli.text.status_text import tables

    out = console()
    scene = shown.scene
    out.print(Text.assemble((f'{scene.name}: "{scene.told}"', "bold"), f" – what happened: {scene.happened}"))
    # They were recorded long before they were laid out here, so that they have no age.
    rows = [replace(row, observation=replace(row.observation, seconds_since_start=None)) for row in shown.rows]
    out.print(tables(rows, verbose=False, causes={}, width=out.width))
    out.print(Text(f"rlx says: {said(shown)}\n"))


def said(shown: Shown) -> str:
    """The verdict that rules the pair out; where none does, what may be said of the two."""
    for row in shown.rows:
        if not row.verdict.is_result(ended=True):
            return f"{row.ref.arm} is {row.verdict.sentence}"
    errors = [finding for contrast in shown.compared.comparison.contrasts for finding in contrast.errors]
    if errors:
        return f"not comparable: {errors[0].message} ({errors[0].id})"
    return "; ".join(shown.compared.sentences)


def print_next(folder: Path) -> None:
    """Say how to go on with these runs, and with one's own."""
    from rlx.api.demo import variables
    from rlx.cli.frame.output import print_text

    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables(folder).items())
    print_text(
        "Look at them yourself:\n"
        f"  export {words}\n"
        "  rlx status -a -v · rlx compare no-noise-baseline-s1 no-noise-aqn-s1 · rlx metrics no-noise-aqn-s1 entropy\n"
        "With logs that you have: rlx import run.log --name mine · with a recipe: rlx init"
    )


def demo_answer(shown: Sequence[Shown]) -> dict[str, Any]:
    """Each scene with its verdicts and what may be said, for --json."""
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
