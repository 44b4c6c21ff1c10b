"""Look at the hosts of a launch while its recipe is read: one round trip each, all at once."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.api.background import Background
from rlx.errors import RlxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlx.api.target import Target
    from rlx.model import Site
    from rlx.planning.host_query import QueriedHost
    from rlx.planning.host_requirements import HostRequirements


class HostLooks:
    """Connects to every node's host from now on, and looks at them once it is known what the recipe wants there.

    Shells for the look at the back-end and for the launch itself are opened, too: over a long line, most of a command
    is opening its shell.
    """

    def __init__(
        self, target: Target, *, must_answer: bool = True, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Without `must_answer`, a host that cannot be reached is no error: what it would tell is not known.

        `meanwhile` is done between the question and its answer.
        """
        # Else a thread that asks a host waits 5 ms for each turn, while this one imports.
        sys.setswitchinterval(0.0005)
        self.must_answer = must_answer
        self._meanwhile = meanwhile
        self.target = target
        self._connected = [_connection(node) for node in target.nodes]
        self._looks: list[Background[QueriedHost]] = []

    def begin(self, wanted: HostRequirements) -> None:
        """Ask every host for what `wanted` depends on; nobody waits here."""
        is_node = bool(self.target.workers)
        self._looks = [
            _look(node, connected, wanted, is_node)
            for node, connected in zip(self.target.nodes, self._connected, strict=True)
        ]

    def connected(self) -> None:
        """Return when commands can share a connection. Raises HostError for a host that must answer."""
        with nullcontext() if self.must_answer else suppress(RlxError):
            for connected in self._connected:
                connected.result()

    def found(self) -> Target:
        """The target with its containers found. Raises HostError."""
        self._meanwhile()
        nodes = [
            replace(node, site=query.results.site) for node, query in zip(self.target.nodes, self._all(), strict=False)
        ]
        return replace(nodes[0], workers=tuple(nodes[1:])) if nodes else self.target

    def result(self) -> tuple[QueriedHost, ...]:
        """What was found on each host, the head's first; nothing of none that need not answer. Raises HostError."""
        return tuple(self._all())

    def _all(self) -> list[QueriedHost]:
        from rlx.hosts.host_errors import HostError

        try:
            return [query.result() for query in self._looks]
        except HostError:
            # Without its container nobody knows where runs would lie.
            if self.must_answer or self.target.site.container is not None:
                raise
            return []


def _connection(node: Target) -> Background[None]:
    return Background(lambda: None if node.is_here else _connect(node.site))


def _connect(site: Site) -> None:
    from rlx.hosts import connect, open_ahead

    host = replace(site.place, inside=None)
    connect(host)
    # For the look at the host, for that at the back-end, and for the launch.
    for place in (host, replace(host, inside=site.container), host):
        open_ahead(place)


def _look(
    node: Target, connected: Background[None], wanted: HostRequirements, is_node: bool
) -> Background[QueriedHost]:
    return Background(lambda: _look_now(node.site, connected, wanted, is_node))


def _look_now(site: Site, connected: Background[None], wanted: HostRequirements, is_node: bool) -> QueriedHost:
    from rlx.hosts import transport_for
    from rlx.planning.host_query import check_space, query_host

    connected.result()
    seen = query_host(transport_for(replace(site.place, inside=None)), site, wanted, is_node=is_node)
    found = seen.results.site
    of_room = check_space(transport_for(found.place), found) if found.place.inside else ()
    return replace(seen, findings=(*seen.findings, *of_room))
