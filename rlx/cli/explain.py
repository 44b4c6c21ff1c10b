"""rlx explain: what a finding means, why it matters, what to do, and where the fact comes from."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of a finding, such as RLX104.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Explain a finding.

    Any id that rlx prints, whether of a recipe, a host, a run or a comparison.
    """
    from rlx.api.explaining import explain as explanation_of
    from rlx.cli.frame.output import print_json, print_text
    from rlx.plan import to_jsonable

    page = explanation_of(id)
    if as_json:
        print_json(to_jsonable(page))
        return
    lines = [f"{page.id}: {page.what}", f"  why: {page.why}", f"  fix: {page.fix}"]
    print_text("\n".join(lines + ([f"  source: {page.source}"] if page.source else [])))
