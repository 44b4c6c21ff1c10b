"""The options --host, --container and --devices, and the site that they name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import HOST_LIST, HOSTS
from rlx.cli.frame.output import narrate, patience
from rlx.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlx.api.hosts import Target
    from rlx.hosts import MadeContainer
    from rlx.model import Image, Site

HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar=HOST_LIST,
        help="Host (rlx hosts) or ssh destination. Several: see --spread and --nodes. Default: the project's.",
        autocompletion=HOSTS,
    ),
]
ContainerOption = Annotated[
    str | None, typer.Option("--container", help="Running container on that host; empty: the host itself.")
]
ImageOption = Annotated[
    str | None, typer.Option("--image", help="Image on that host, from which rlx makes a container for the runs.")
]
SpreadOption = Annotated[
    bool, typer.Option("--spread", help="Distribute runs across hosts, each seed with all its arms on one.")
]
NodesOption = Annotated[
    bool, typer.Option("--nodes", help="Each host is one node of every run (layout.nodes), the head first.")
]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Allow preflight to run the recipe's interpreter; remembered.")
]
DevicesOption = Annotated[str | None, typer.Option("--devices", metavar="N|LIST", help="Device count, or ids (0,2-3).")]

SendOption = Annotated[
    list[str] | None,
    typer.Option("--send", metavar="FILE", help="Upload this private file, which the recipe names (RLX026)."),
]


Where = tuple["str | None", "str | Image | None", "str | None"]
"""--host, --container or --image, --devices"""


def check_hosts(host: str | None, *, spread: bool, nodes: bool) -> None:
    """Raise UsageError if --spread and --nodes are given together, or without several hosts."""
    if spread and nodes:
        raise UsageError(
            "--spread and --nodes exclude each other",
            "--spread distributes whole runs across hosts, --nodes makes all hosts one run of several nodes",
        )
    option = "--spread" if spread else "--nodes"
    if (spread or nodes) and "," not in (host or ""):
        raise UsageError(f"{option} needs several hosts", f"name them: --host A,B {option}")


def chosen_where(
    host: str | None,
    container: str | None,
    image: str | None,
    devices: str | None,
    *,
    spread: bool,
    nodes: bool,
    before: Callable[[], None] | None,
) -> Where:
    """Return where a launch goes, after containers were made from images on those hosts.

    `before` is called before a container is made; without it none is made, and no host is queried.

    Raise UsageError for options that contradict each other, and HostError.
    """
    check_hosts(host, spread=spread, nodes=nodes)
    return host, _container_for(host, container, image, before, not spread), devices


def _container_for(
    host: str | None, container: str | None, image: str | None, before: Callable[[], None] | None, all_must: bool
) -> str | Image | None:
    from rlx.api.hosts import image_of, start_containers

    if before or (container is not None and image is not None):
        with patience(f"starting a container on {host or 'the host'} …"):
            names = [name.strip() for name in host.split(",")] if host else [None]
            for made in start_containers(names, container, image, before, all_must=all_must):
                narrate_made(made)
    return container if image is None else image_of(image)


def container_name(container: str | Image | None) -> str | None:
    """Return the name of the container, also of one that is made from an image; not for containers of jobs."""
    from rlx.hosts import made_name
    from rlx.model import Image

    return made_name(container) if isinstance(container, Image) else container


def narrate_made(made: MadeContainer) -> None:
    if made.is_new:
        narrate(f"rlx: {made.host}: made the container {made.name} from {made.image} ({made.image_id[:19]})")


def chosen_target(host: str | None, container: str | None, devices: str | None = None) -> Target:
    """Find the site that the options name, and locate a container on its host. Raise UsageError or HostError."""
    from rlx.api.hosts import named_target

    target = named_target(host, container, devices)
    found = [replace(node, site=located(node.site)) for node in target.nodes]
    return replace(found[0], workers=tuple(found[1:]))


def located(site: Site) -> Site:
    """Return the site with its container located. Print warnings. Raise HostError."""
    if site.container is None:
        return site
    from rlx.hosts import locate

    site, warnings = locate(site)
    for warning in warnings:
        narrate(f"rlx: warning: {warning}")
    return site
