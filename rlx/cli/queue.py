"""rlx queue: show which runs have which devices, and which wait for them."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.options import HOST_LIST, HOSTS
from rlx.cli.frame.output import console, narrate, patience, print_json


def queue(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]...", help="Default: every host that has runs of yours.", autocompletion=HOSTS),
    ] = None,
    host: Annotated[str | None, typer.Option(metavar=HOST_LIST, help="The same.", autocompletion=HOSTS)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show which runs have which devices, and which wait for them.

    Also since when, behind which runs, and when each is expected to start. Runs of all users are listed, and processes
    outside rlx. A host that does not answer is shown as unreachable; others are unaffected.
    """
    from rlx.api.queues import queue as look
    from rlx.api.runs import host_names
    from rlx.cli.text.queue_text import queue_document, queue_tables

    named = [name for each in (*(hosts or ()), *([host] if host else ())) for name in host_names(each)]
    with patience():
        found = look(named or None)
    if as_json:
        print_json({"hosts": [queue_document(host) for host in found]})
        return
    if not found:
        narrate("no host has runs yet; rlx queue HOST queries any host")
        return
    console().print(queue_tables(found, console().width))
