"""Say where a launch goes: the hosts, the container and the devices that a person names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.hosts import Host
    from rlx.model import Image, LaunchPlan, Site


@dataclass(frozen=True, slots=True)
class Target:
    """A host, the place there that runs go to, and the devices that a person named; `workers` are the further nodes.

    `consents`: the person agreed that an interpreter which only the recipe names is started there to look.
    """

    host: Host
    site: Site
    devices: str | None = None
    workers: tuple[Target, ...] = ()
    consents: bool = False

    @property
    def nodes(self) -> tuple[Target, ...]:
        return (self, *self.workers)

    @property
    def is_here(self) -> bool:
        """On this machine itself, and in no container."""
        return self.site.place.is_local and self.site.container is None

    def may_start(self, python: str) -> bool:
        """Tell whether an interpreter may be started to look at every node. A consent is remembered."""
        return all([_may_start(node, python, self.consents) for node in self.nodes])

    def placed(self, plan: LaunchPlan) -> LaunchPlan:
        """The plan with these devices, and with findings where the host has not what it needs."""
        from rlx.hosts.inventory.host_devices import on_devices

        return on_devices(plan, self.host, self.devices)


def _may_start(node: Target, python: str, consents: bool) -> bool:
    """Tell whether an interpreter may be started there, and remember a new consent."""
    from rlx.hosts.inventory.trusted import allow, is_allowed, is_plain_python

    own = (node.host.python, sys.executable if node.is_here else None)
    if is_plain_python(python) or python in own or is_allowed(node.site, python):
        return True
    if consents:
        allow(node.site, python)
    return consents


def named_target(
    host: str | None, container: str | Image | None = None, devices: str | None = None, *, consents: bool = False
) -> Target:
    """Read `HOST[,HOST]...`, a container or its image, and devices as a person writes them. Nobody is asked.

    Raises UsageError.
    """
    from rlx.hosts import known_host, site_of

    names = [None] if host is None else [name.strip() for name in host.split(",")]
    if len(names) > 1 and "" in names:
        raise UsageError(f"--host {host}: a name is missing", "several hosts are written A3,A4, the head first")
    head, *workers = [Target(known_host(name), site_of(name, container), devices) for name in names]
    places = [node.site.place.destination or node.site.host for node in (head, *workers)]
    if len(set(places)) < len(places):
        raise UsageError(f"--host {host}: a host is named twice", "each node of a run is a host of its own")
    for node in (head, *workers):
        _refuse_beside_jobs(node.site)
    return replace(head, workers=tuple(workers), consents=consents)


def _refuse_beside_jobs(site: Site) -> None:
    """Before docker is asked on a login node, which need not have it."""
    if site.batch is not None and site.container is not None:
        from rlx.hosts.inventory.host_file import NOT_OF_A_JOB, OWN_CONTAINER

        raise UsageError(f"{site.host}: {NOT_OF_A_JOB}: {site.container}", OWN_CONTAINER)


def sweep_targets(
    hosts: str | Sequence[str], container: str | None = None, devices: str | None = None, *, consents: bool = False
) -> tuple[Target, ...]:
    """Read the hosts of a sweep, each a target of its own. Raises UsageError."""
    names = hosts if isinstance(hosts, str) else ",".join(hosts)
    together = named_target(names, container, devices, consents=consents)
    if batch := next((node.host.name for node in together.nodes if node.host.batch is not None), None):
        # What waits there cannot be taken back with one rename, and its scheduler knows where nodes are free.
        raise UsageError(f"{batch}: its scheduler places runs on nodes by itself", f"rlx launch RECIPE --host {batch}")
    return tuple(replace(node, workers=(), consents=consents) for node in together.nodes)


def target_of(plan: LaunchPlan, *, consents: bool = False) -> Target:
    """Where a plan goes that was made before. Raises UsageError."""
    head, *workers = [_target(node) for node in plan.parts]
    return replace(head, workers=tuple(workers), consents=consents)


def _target(plan: LaunchPlan) -> Target:
    from rlx.hosts import Host, known_hosts

    return Target(known_hosts().get(plan.site.host, Host(plan.site.host)), plan.site)
