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
    from rlx.cli.frame.output import print_json, print_text

    page = _page(id.upper())
    if as_json:
        print_json(page)
        return
    lines = [f"{page['id']}: {page['what']}", f"  why: {page['why']}", f"  fix: {page['fix']}"]
    print_text("\n".join(lines + ([f"  source: {page['source']}"] if page["source"] else [])))


def _page(id: str) -> dict[str, str]:
    from rlx.preflight.rules import find_rule

    if rule := find_rule(id):
        return {"id": rule.id, "what": rule.title, "why": rule.why, "fix": rule.fix, "source": rule.source}
    return _row(id)


def _row(id: str) -> dict[str, str]:
    """Read the row from the page that lists them all. Raises UsageError for an id that is not there."""
    from difflib import get_close_matches

    from rlx.errors import UsageError
    from rlx.resources import findings_page

    lines = findings_page().read_text(encoding="utf-8").splitlines()
    found: dict[str, list[str]] = {}
    row = [""] * 4
    for line in lines:
        if line.startswith("| RLX"):
            cells = line.strip("| ").split(" | ")
            # The table saves words, one page cannot.
            row = [above if cell == "as above" else cell for cell, above in zip(cells, row, strict=True)]
            found[row[0]] = row
    if id not in found:
        nearest = get_close_matches(id, found, n=3)
        raise UsageError(f"there is no finding {id}", f"did you mean {', '.join(nearest)}?" if nearest else "")
    return dict(zip(("id", "what", "why", "fix", "source"), (*found[id], ""), strict=True))
