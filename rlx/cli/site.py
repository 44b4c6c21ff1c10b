"""Where a launch goes: --host, --container and --devices, for every command that has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rlx.hosts import Host
    from rlx.plan import LaunchPlan, Site

HostOption = Annotated[
    str | None, typer.Option("--host", help="Name of a host (rlx hosts) or ssh destination. Default: the project's.")
]
ContainerOption = Annotated[
    str | None, typer.Option("--container", help="Running container on that host; empty: the host itself.")
]
DevicesOption = Annotated[
    str | None, typer.Option("--devices", metavar="N|LIST", help="As many devices, or these: 0,2-3.")
]


@dataclass(frozen=True, slots=True)
class Target:
    """A host, the place there that runs go to, and the devices that a person named."""

    host: Host
    site: Site
    devices: str | None = None

    def placed(self, plan: LaunchPlan) -> LaunchPlan:
        """The plan with these devices, and with findings where the host has not what it needs."""
        from rlx.hosts.devices import on_devices

        return on_devices(plan, self.host, self.devices)


def chosen_target(host: str | None, container: str | None, devices: str | None = None) -> Target:
    """What the options mean; a container is looked at on its host. Raises UsageError or HostError."""
    target = named_target(host, container, devices)
    return replace(target, site=located(target.site))


def named_target(host: str | None, container: str | None, devices: str | None = None) -> Target:
    """What the options mean; nobody is asked. Raises UsageError."""
    from rlx.hosts import known_host, site_of

    return Target(known_host(host), site_of(host, container), devices)


def located(site: Site) -> Site:
    """The site with its container found. Tells warnings. Raises HostError."""
    from rlx.cli.output import narrate

    if site.container is None:
        return site
    from rlx.hosts import locate

    site, warnings = locate(site)
    for warning in warnings:
        narrate(f"rlx: warning: {warning}")
    return site
