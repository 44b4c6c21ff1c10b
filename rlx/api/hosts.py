"""Resolve the hosts, containers and devices of a launch, and query the hosts while the recipe is read.

Each host costs one round trip, and all hosts are queried at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.hosts import Host, MadeContainer
    from rlx.model import Image, Installation, InstallationQuestion, LaunchPlan, Site
    from rlx.planning.host_query import QueriedHost
    from rlx.planning.host_requirements import HostRequirements
    from rlx.recipe import ResolvedRecipe

T = TypeVar("T")


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
        """Return the head and the workers."""
        return (self, *self.workers)

    @property
    def is_here(self) -> bool:
        """On this machine itself, and in no container."""
        return self.site.place.is_local and self.site.container is None

    @property
    def declared(self) -> tuple[str, int] | None:
        """Return kind and number of the devices that the host's entry declares; None for a CPU, or no number."""
        device = self.host.device
        return (device.kind, device.count) if device and device.count and device.kind != "cpu" else None

    def may_start(self, python: str) -> bool:
        """Tell whether an interpreter may be started to query every node. A consent is remembered."""
        return all([_may_start(node, python, self.consents) for node in self.nodes])

    def placed(self, plan: LaunchPlan) -> LaunchPlan:
        """Return the plan with these devices, and with findings where the host lacks what it needs."""
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
    """Read `HOST[,HOST]...`, a container or its image, and devices as a person writes them. No host is queried.

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


class HostQueries:
    """Connect to every node's host at once, and query them when the recipe's requirements are known.

    Shells for the query of the back-end and for the launch itself are opened, too: on a slow connection, opening a
    shell is most of a command.
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
        """Ask every host for what `wanted` depends on; return without waiting."""
        is_node = bool(self.target.workers)
        self._looks = [
            _look(node, connected, wanted, is_node)
            for node, connected in zip(self.target.nodes, self._connected, strict=True)
        ]

    def connected(self) -> None:
        """Wait until commands can share a connection. Raises HostError for a host that must answer."""
        with nullcontext() if self.must_answer else suppress(RlxError):
            for connected in self._connected:
                connected.result()

    def found(self) -> Target:
        """Return the target with its containers found. Raises HostError."""
        self._meanwhile()
        nodes = [
            replace(node, site=query.results.site) for node, query in zip(self.target.nodes, self._all(), strict=False)
        ]
        return replace(nodes[0], workers=tuple(nodes[1:])) if nodes else self.target

    def result(self) -> tuple[QueriedHost, ...]:
        """Return the probe results of each host, the head's first; none of hosts that need not answer. Raises
        HostError.
        """
        return tuple(self._all())

    def _all(self) -> list[QueriedHost]:
        from rlx.hosts.host_errors import HostError

        try:
            return [query.result() for query in self._looks]
        except HostError:
            # Without its container, the place of runs is unknown.
            if self.must_answer or self.target.site.container is not None:
                raise
            return []


def _connection(node: Target) -> Background[None]:
    return Background(lambda: None if node.is_here else _connect(node.site))


def _connect(site: Site) -> None:
    from rlx.hosts import connect, open_ahead

    host = replace(site.place, inside=None)
    connect(host)
    # For the query of the host, for that of the back-end, and for the launch.
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


class Background(Generic[T]):
    """Work that starts at once in a daemon thread: even the end of rlx does not wait for it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        Thread(target=self._run, args=(call,), daemon=True).start()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as problem:  # noqa: BLE001 - is raised again in the thread that waits
            self._future.set_exception(problem)

    def result(self) -> T:
        """Return what the call returns. Raises what it raises."""
        return self._future.result()


class BackendTrees:
    """Remember what each recipe would import there. The files of the answers are kept in rlx's home."""

    def __init__(self, target: Target, must_answer: bool) -> None:
        self._target = target
        self._site = target.site
        self._must_answer = must_answer
        self._found: dict[InstallationQuestion, Installation] = {}

    def look(self, resolved: ResolvedRecipe) -> InstallationQuestion | None:
        """Write the question; None for a back-end of which nothing needs to be known."""
        from rlx.backends.protocol import load_backend

        look = load_backend(resolved.recipe.backend.kind).look(resolved, self._site)
        return replace(look, may_start=self._target.may_start(look.python)) if look else None

    def find(self, look: InstallationQuestion | None) -> Installation | None:
        """Return the installation. Raises HostError for a host that must answer and does not; else the result has the
        problem.
        """
        if look is None:
            return None
        if look not in self._found:
            self._found[look] = self._find(look)
        return self._found[look]

    def _find(self, look: InstallationQuestion) -> Installation:
        from rlx.api.runs import rlx_home
        from rlx.hosts import find_installation
        from rlx.hosts.host_errors import HostError
        from rlx.model import Installation

        try:
            return find_installation(self._site, look, rlx_home() / "trees")
        except HostError as error:
            if self._must_answer:
                raise
            return Installation(self._site.host, problem=error.message)


def latest_tree() -> Installation | None:
    """Return a guess of what the next query of a host will find: the result of the last one."""
    from rlx.api.runs import rlx_home
    from rlx.hosts.installations import latest_tree
    from rlx.model import Installation

    folder = latest_tree(rlx_home() / "trees")
    return Installation("the last host", folder=folder) if folder else None


def start_container(host: str | None = None, image: str | None = None) -> MadeContainer:
    """Make the container of the host's `image`, or of this one, and start it, unless it runs already.

    A plan for that host, or with its name as `container`, goes into it. Fetches no image. Raises UsageError for a host
    without an image, ContainerGone for what keeps the container from running, HostError for a silent host.
    """
    made = start_containers([host], None, image)
    if not made:
        _refuse_ahead_of_jobs(host)
        raise UsageError(f"{host or 'the default host'} has no image", "write image: NAME in its entry, or name one")
    return made[0]


def _refuse_ahead_of_jobs(host: str | None) -> None:
    from rlx.hosts import known_host

    known = known_host(host)
    if known.batch is not None:
        fix = f"nothing is to be started: rlx launch RECIPE --host {known.name}, with --image where its entry has none"
        raise UsageError(f"{known.name}: each job makes a container of its own, which ends with it", fix)


def start_containers(
    hosts: Sequence[str | None],
    container: str | None,
    image: str | None,
    before: Callable[[], None] | None = None,
    *,
    all_must: bool = True,
) -> tuple[MadeContainer, ...]:
    """Make what is not there yet of the containers that a launch to these hosts goes into, all hosts at once.

    `container` is what the launch names itself: there is nothing to make. Otherwise `before` comes first. Raises as it
    and `start_container` do; unless `all_must`, a host that cannot is skipped, because its query reports that.
    """
    if container is not None and image is not None:
        raise UsageError("--container and --image exclude each other", "--image makes a container, --container has one")
    wanted = [found for host in hosts if (found := _wanted(host, container, image))]
    if not wanted:
        return ()
    if before:
        before()
    from concurrent.futures import ThreadPoolExecutor

    from rlx.hosts import make_container
    from rlx.hosts.host_errors import HostError

    def made(found: tuple[Site, Image]) -> MadeContainer | None:
        with nullcontext() if all_must else suppress(HostError):
            return make_container(*found)
        return None

    with ThreadPoolExecutor(len(wanted)) as at_once:
        return tuple(filter(None, at_once.map(made, wanted)))


def _wanted(host: str | None, container: str | None, image: str | None) -> tuple[Site, Image] | None:
    """Where one is to be made now, and of which image; None where runs go into none, or each job makes its own."""
    from rlx.hosts import known_host, made_name, site_of

    named = image_of(image) if image is not None else None
    of_host, site = known_host(host).image, site_of(host, container)
    if site.batch is not None:
        return None
    if named is not None:
        return site, named
    return (site, of_host) if of_host is not None and site.container == made_name(of_host) else None


def image_of(name: str) -> Image:
    """Read the name of an image. Raises UsageError for anything else."""
    from rlx.hosts import Image
    from rlx.hosts.inventory.image_entry import image_problem

    if problem := image_problem(name):
        raise UsageError(f"image: {problem}", "docker images, on the host, lists them")
    return Image(name)
