"""rlx explain: explain a finding or a verdict."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.options import FINDINGS
from rlx.cli.frame.output import print_json, print_text
from rlx.findings import Language, reader_language

_LABELS = {Language.EN: ("why: ", "fix: ", "source: "), Language.ZH: ("原因：", "修复：", "来源：")}


def explain(
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID]",
            help="Id of a finding, such as RLX104, or a verdict. Default: list all.",
            autocompletion=FINDINGS,
        ),
    ] = None,
    language: Annotated[
        Language | None,
        typer.Option("--language", help="Explain in English or in Chinese. Default: by RLX_LANG or the locale."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Explain a finding or a verdict.

    Any id that rlx prints, whether of a recipe, a host, a run or a comparison.
    """
    from rlx.api.diagnosing import explain as explanation_of
    from rlx.api.diagnosing import explain_all
    from rlx.model import to_jsonable

    language = language or reader_language()
    if id is None:
        pages = explain_all(language)
        if as_json:
            print_json({"findings": pages})
        else:
            print_text("\n".join(f"{page.id}  {page.what}" for page in pages))
        return
    page = explanation_of(id, language)
    if as_json:
        print_json(to_jsonable(page))
        return
    parts = zip(_LABELS[language], (page.why, page.fix, page.source), strict=True)
    print_text("\n".join([f"{page.id}: {page.what}", *(f"  {label}{text}" for label, text in parts if text)]))
