"""What a launch asks another machine or a container before it starts anything there, and while the recipe is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.cli.background import Background
from rlx.errors import ExitCode, RlxError
from rlx.plan import Severity, Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlx.plan import Finding, LaunchPlan, Place


class HostCheck:
    """Finds the site's container and does the cheap part of `rlx doctor`, from now on and all at once.

    Shells for the look at the back-end and for the launch itself are opened, too: over a long line, most of a command
    is opening its shell.
    """

    def __init__(self, site: Site) -> None:
        self._is_here = site.place.is_local and site.container is None
        if self._is_here:
            self._located = Background(lambda: site)
            return
        # A root that somebody chose stays; another one is found with the container.
        folders = (site.root,) if site.container is None or site.root != Site().root else ()
        host = replace(site.place, inside=None)
        connected = Background(lambda: _connect(host, site))
        self._located = Background(lambda: _located(site, connected))
        self._findings = Background(lambda: _findings(host, site, connected, folders))
        self._room = None if folders else Background(lambda: _room(self._located.result()))

    def site(self) -> Site:
        """The site with its container found. Raises HostError."""
        return self._located.result()

    def tell(self) -> None:
        """Tell warnings. Raises RlxError (exit 5) with all errors, or HostError."""
        if not self._is_here:
            _tell((*self._findings.result(), *(self._room.result() if self._room else ())))


def check_again(plans: Sequence[LaunchPlan]) -> None:
    """What may have changed since these plans were made: the host, and which container has the name.

    Raises HostError, or RlxError (exit 5).
    """
    site = plans[0].site
    if site.container is not None and site.container_id is None:
        return  # The launch refuses a plan whose container nobody has looked at.
    check = HostCheck(site)
    found = check.site()
    if found.container_id != site.container_id:
        raise RlxError(
            f"{site.host}: the container {site.container} is another one than when the plan was made",
            "make the plan again: rlx plan RECIPE --json",
            ExitCode.PREFLIGHT_FAILED,
        )
    check.tell()


def _connect(host: Place, site: Site) -> None:
    from rlx.hosts import connect, open_ahead

    connect(host)
    # For the look at the back-end; for locate, check and launch.
    for place in (replace(host, inside=site.container), host, host, host):
        open_ahead(place)


def _located(site: Site, connected: Background[None]) -> Site:
    from rlx.cli.site import located

    connected.result()
    return located(site)


def _findings(host: Place, site: Site, connected: Background[None], folders: tuple[str, ...]) -> tuple[Finding, ...]:
    from rlx.hosts import transport_for
    from rlx.preflight.doctor import quick

    connected.result()
    return quick(transport_for(host), site, *folders)[1]


def _room(site: Site) -> tuple[Finding, ...]:
    from rlx.hosts import transport_for
    from rlx.preflight.doctor import room

    return room(transport_for(site.place), site)


def _tell(findings: tuple[Finding, ...]) -> None:
    from rlx.cli.output import narrate
    from rlx.cli.planning import finding_text

    for finding in findings:
        if finding.severity is Severity.WARNING:
            narrate(f"rlx: {finding_text(finding)}")
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        texts = "\n".join(finding_text(finding) for finding in errors)
        raise RlxError(texts, "rlx doctor HOST shows all that is known of the host", ExitCode.PREFLIGHT_FAILED)
