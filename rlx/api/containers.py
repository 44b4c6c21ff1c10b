"""Make the containers of images that launches go into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.hosts import Image, MadeContainer
    from rlx.model import Site


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
    and `start_container` do; unless `all_must`, a host that cannot is passed over, since the look at it says so.
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
    """Read the name of an image. Raises UsageError for what is none."""
    from rlx.hosts import Image
    from rlx.hosts.inventory.image_entry import image_problem

    if problem := image_problem(name):
        raise UsageError(f"image: {problem}", "docker images, on the host, lists them")
    return Image(name)
