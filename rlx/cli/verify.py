"""rlx verify: check a bundle of rlx report against the evidence in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def verify(
    bundle: Annotated[Path, typer.Argument(metavar="FILE", help="What rlx report --bundle wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check a bundle of rlx report against the evidence in it.

    Every verdict, value and sentence is computed again from the manifests, logs, metrics, events and outputs in it. No
    host is asked, and your own runs are not read. Exit code: 0 all of it follows, whether or not the claim, which is
    printed, may be reported · 14 something does not, or is worded by another version of rlx.
    """
    from rlx.api.bundle_judging import judge_bundle
    from rlx.cli.frame.output import patience, print_json, print_text
    from rlx.cli.text.judge_text import judged_document, judged_lines
    from rlx.errors import ExitCode

    with patience("judging again …"):
        judged = judge_bundle(bundle)
    if as_json:
        print_json(judged_document(judged))
    else:
        for line in judged_lines(judged):
            print_text(line)
    raise typer.Exit(ExitCode.OK if judged.agrees else ExitCode.NOT_VERIFIED)
