"""rlx wait: wait until runs have ended; the exit code says how."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.options import RunsArgument, parse_age
from rlx.cli.frame.output import narrate, print_json, print_text
from rlx.cli.frame.run_progress import each_of, hint_at_diagnosis, progress_ticker
from rlx.errors import ExitCode, RlxError


def wait(
    names: RunsArgument = None,
    timeout: Annotated[
        str | None, typer.Option(help="Give up after this long (30s, 10m, 2h); exit code 11 then.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Wait until runs have ended; the exit code says how.

    Ctrl-C ends the waiting only. The addresses of notify.yaml are notified. Exit code: 0 all finished and nothing
    contradicts them · 10 one failed or was lost · 13 one was stopped · 14 one finished, but its verdict is invalid or
    incomplete, or contradicted · 11 the time was up.
    """
    from rlx.api.notifying import notified
    from rlx.api.waiting import outcome
    from rlx.api.waiting import wait as wait_for
    from rlx.cli.text.run_document import row_document

    timeout_s = parse_age(timeout) if timeout else None
    try:
        with notified(narrate) as notifier, progress_ticker() as alive:
            rows = wait_for(names or None, timeout_s=timeout_s, tell=narrate, seen=each_of(alive, notifier.see))
    except KeyboardInterrupt:
        narrate("\nno longer waiting; the runs continue. Again: rlx wait · state: rlx status · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except RlxError as error:
        if as_json or error.exit_code is not ExitCode.NOT_FINISHED:
            raise
        narrate(f"rlx: {error.message}: {error.hint}")
        raise typer.Exit(error.exit_code) from None
    if as_json:
        print_json({"runs": [row_document(row) for row in rows]})
    else:
        for row in rows:
            print_text(f"{row.ref.run_id}  {row.state.value}  {row.verdict.sentence}")
        hint_at_diagnosis(rows)
    raise typer.Exit(outcome(rows))
