"""Make the containers of images that launches go into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.hosts import Image, MadeContainer
    from rlx.plan import Site


def start_container(host: str | None = None, image: str | None = None) -> MadeContainer:
    """Make the container of the host's `image`, or of this one, and start it, unless it runs already.

    A plan for that host, or with its name as `container`, goes into it. Fetches no image. Raises UsageError for a host
    without an image, ContainerGone for what keeps the container from running, HostError for a silent host.
    """
    made = start_containers([host], None, image)
    if not made:
        raise UsageError(f"{host or 'the default host'} has no image", "write image: NAME in its entry, or name one")
    return made[0]


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


def image_container(image: str) -> str:
    """Name the container that rlx makes of an image. Raises UsageError for what is no name of one."""
    from rlx.hosts import made_name

    return made_name(_image(image))


def _wanted(host: str | None, container: str | None, image: str | None) -> tuple[Site, Image] | None:
    """Where a container is to be made, and of which image; None where runs go into none that rlx makes."""
    from rlx.hosts import known_host, made_name, site_of

    named = _image(image) if image is not None else None
    of_host, site = known_host(host).image, site_of(host, container)
    if named is not None:
        if site.slurm is not None:
            fix = f"write image: {image} in the entry of this host"
            raise UsageError(f"{site.host}: no container is made ahead of a job of Slurm", fix)
        return site, named
    return (site, of_host) if of_host is not None and site.container == made_name(of_host) else None


def _image(name: str) -> Image:
    from rlx.hosts import Image
    from rlx.hosts.inventory.image_entry import image_problem

    if problem := image_problem(name):
        raise UsageError(f"image: {problem}", "docker images, on the host, lists them")
    return Image(name)
