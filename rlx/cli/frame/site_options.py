"""Read --host, --container and --devices for every command that has them, and find the site they name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.hosts import Host
    from rlx.plan import LaunchPlan, Site

HostOption = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="HOST[,HOST]...",
        help="Host (rlx hosts) or ssh destination; one for each node, the head first. Default: the project's.",
    ),
]
ContainerOption = Annotated[
    str | None, typer.Option("--container", help="Running container on that host; empty: the host itself.")
]
DevicesOption = Annotated[
    str | None, typer.Option("--devices", metavar="N|LIST", help="As many devices, or these: 0,2-3.")
]


@dataclass(frozen=True, slots=True)
class Target:
    """A host, the place there that runs go to, and the devices that a person named; `workers` are the further nodes."""

    host: Host
    site: Site
    devices: str | None = None
    workers: tuple[Target, ...] = ()

    @property
    def nodes(self) -> tuple[Target, ...]:
        return (self, *self.workers)

    def placed(self, plan: LaunchPlan) -> LaunchPlan:
        """The plan with these devices, and with findings where the host has not what it needs."""
        from rlx.hosts.inventory.host_devices import on_devices

        return on_devices(plan, self.host, self.devices)


def chosen_target(host: str | None, container: str | None, devices: str | None = None) -> Target:
    """Find the site that the options mean, looking at a container on its host. Raises UsageError or HostError."""
    target = named_target(host, container, devices)
    found = [replace(node, site=located(node.site)) for node in target.nodes]
    return replace(found[0], workers=tuple(found[1:]))


def named_target(host: str | None, container: str | None, devices: str | None = None) -> Target:
    """Find the site that the options mean, asking nobody. Raises UsageError."""
    from rlx.hosts import known_host, site_of

    names = [None] if host is None else [name.strip() for name in host.split(",")]
    if len(names) > 1 and "" in names:
        raise UsageError(f"--host {host}: a name is missing", "several hosts are written A3,A4, the head first")
    head, *workers = [Target(known_host(name), site_of(name, container), devices) for name in names]
    places = [node.site.place.destination or node.site.host for node in (head, *workers)]
    if len(set(places)) < len(places):
        raise UsageError(f"--host {host}: a host is named twice", "each node of a run is a host of its own")
    return replace(head, workers=tuple(workers))


def located(site: Site) -> Site:
    """The site with its container found. Tells warnings. Raises HostError."""
    from rlx.cli.frame.output import narrate

    if site.container is None:
        return site
    from rlx.hosts import locate

    site, warnings = locate(site)
    for warning in warnings:
        narrate(f"rlx: warning: {warning}")
    return site
