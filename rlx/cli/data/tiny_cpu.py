"""`rlx data tiny-cpu`: the tiny model and its data, made where they are to be used."""

from __future__ import annotations

from typing import Annotated

import typer

from rlx.cli.frame.site_options import ContainerOption, HostOption

TINY_CPU_FOLDER = "~/.cache/rlx/tiny-cpu"


def tiny_cpu(
    host: HostOption = None,
    container: ContainerOption = None,
    to: Annotated[str, typer.Option(help="The folder to write; the recipe names the default.")] = TINY_CPU_FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Make it again even if it is complete.")] = False,
) -> None:
    """Make the tiny model and its data.

    They are made where the training will read them: here, on the host, or in its container. Prints the folder. What is
    complete already is left alone.
    """
    from rlx.api.data_place import data_site
    from rlx.api.tiny_data import make_tiny_data
    from rlx.cli.frame.output import narrate

    answer = make_tiny_data(data_site(host, container), to, force=force, tell=narrate)
    if not answer["made"]:
        narrate(f"{answer['folder']} is complete")
    print(answer["folder"])
