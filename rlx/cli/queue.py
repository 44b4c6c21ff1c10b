"""rlx queue: who has the devices of the hosts, who waits for them, and about when they start."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.completion import HOSTS


def queue(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HOST]...", help="Default: every host with runs of yours.", autocompletion=HOSTS),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show who has which devices, and who waits for them.

    Also since when, behind whom, and about when it starts. Runs of all users count, and processes outside rlx.
    A host that does not answer costs its own line only.
    """
    from rlx.api.queues import queue as look
    from rlx.cli.frame.output import console, narrate, patience, print_json
    from rlx.cli.text.queue_text import queue_document, queue_tables

    with patience():
        found = look(hosts or None)
    if as_json:
        print_json({"hosts": [queue_document(host) for host in found]})
        return
    if not found:
        narrate("no host with runs yet; rlx queue HOST asks any other")
        return
    console().print(queue_tables(found, console().width))
