"""Ask the machine or container of a launch what it has, while the recipe is read, because nothing has started yet."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.api.background import Background
from rlx.cli.frame.output import narrate
from rlx.errors import ExitCode, RlxError
from rlx.plan import Severity, Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlx.cli.frame.site_options import Target
    from rlx.plan import Finding, LaunchPlan

    _Looked = tuple[Site, tuple[Finding, ...], tuple[str, ...]]


class HostCheck:
    """Finds the site's container and does the cheap part of `rlx doctor`, from now on and in one command.

    Shells for the look at the back-end and for the launch itself are opened, too: over a long line, most of a command
    is opening its shell.
    """

    def __init__(self, site: Site, *, is_node: bool = False) -> None:
        """`is_node`: of a run on several hosts."""
        # Else a thread that asks a host waits 5 ms for each turn, while this one imports.
        sys.setswitchinterval(0.0005)
        self._is_here = site.place.is_local and site.container is None
        self._connected = Background(lambda: None if self._is_here else _connect(site))
        self._looked = Background(lambda: (site, (), ()) if self._is_here else _look(site, self._connected, is_node))

    def connected(self) -> None:
        """Returns when commands can share a connection. Raises HostError."""
        self._connected.result()

    def site(self) -> Site:
        """The site with its container found. Raises HostError."""
        return self._looked.result()[0]

    def tell(self) -> None:
        """Tell warnings. Raises RlxError (exit 5) with all errors, or HostError."""
        site, findings, warnings = self._looked.result()
        for warning in warnings:
            narrate(f"rlx: warning: {warning}")
        _tell((*findings, *(_room(site) if site.place.inside else ())))


class HostChecks:
    """A check of every node's host, all at once. What is said of one host is said of all here."""

    def __init__(self, target: Target) -> None:
        self._checks = [HostCheck(node.site, is_node=bool(target.workers)) for node in target.nodes]

    def connected(self) -> None:
        for check in self._checks:
            check.connected()

    def found(self, target: Target) -> Target:
        """The target with its containers found. Raises HostError."""
        nodes = [replace(node, site=check.site()) for node, check in zip(target.nodes, self._checks, strict=True)]
        return replace(nodes[0], workers=tuple(nodes[1:]))

    def tell(self) -> None:
        for check in self._checks:
            check.tell()


def check_again(plans: Sequence[LaunchPlan]) -> None:
    """Look again at what may have changed since these plans were made: the hosts, and which container has the name.

    Raises HostError, or RlxError (exit 5).
    """
    for node in plans[0].nodes:
        _check_again(node.site, is_node=node.cluster is not None)


def _check_again(site: Site, *, is_node: bool) -> None:
    if site.container is not None and site.container_id is None:
        return  # The launch refuses a plan whose container nobody has looked at.
    check = HostCheck(site, is_node=is_node)
    found = check.site()
    if found.container_id != site.container_id:
        raise RlxError(
            f"{site.host}: the container {site.container} is another one than when the plan was made",
            "make the plan again: rlx plan RECIPE --json",
            ExitCode.PREFLIGHT_FAILED,
        )
    check.tell()


def _connect(site: Site) -> None:
    from rlx.hosts import connect, open_ahead

    host = replace(site.place, inside=None)
    connect(host)
    # For the check, for the look at the back-end, and for the launch.
    for place in (host, replace(host, inside=site.container), host):
        open_ahead(place)


def _look(site: Site, connected: Background[None], is_node: bool) -> _Looked:
    from rlx.hosts import transport_for
    from rlx.preflight.before_launch import quick
    from rlx.preflight.checks.docker_checks import reachable

    connected.result()
    examined, findings, warnings = quick(transport_for(replace(site.place, inside=None)), site)
    return examined.site, (*findings, *(reachable(examined) if is_node else ())), warnings


def _room(site: Site) -> tuple[Finding, ...]:
    from rlx.hosts import transport_for
    from rlx.preflight.before_launch import room

    return room(transport_for(site.place), site)


def _tell(findings: tuple[Finding, ...]) -> None:
    from rlx.api.planning import finding_text

    for finding in findings:
        if finding.severity is Severity.WARNING:
            narrate(f"rlx: {finding_text(finding)}")
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        texts = "\n".join(finding_text(finding) for finding in errors)
        raise RlxError(texts, "rlx doctor HOST shows all that is known of the host", ExitCode.PREFLIGHT_FAILED)
