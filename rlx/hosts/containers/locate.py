"""Looks at the container that a site names, and finds where runs in it can live. One command on the host.

Host and container share a folder by a mount. `site.root` is how the host writes it, `site.container_root` how the
container does. Where they share none, runs live in the container's own file system, and go with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlx.hosts.containers.container_errors import refusal
from rlx.hosts.containers.docker_script import docker_script
from rlx.hosts.host_errors import ContainerGone, HostError, reading_answer
from rlx.hosts.transports import transport_for
from rlx.plan import Cmd, Site

_TIMEOUT_S = 60.0
# A session of its own: what ends a command whose caller is gone would end this one before it has cleared up, if docker
# is slow. Not last: in place of this shell, setsid would not wait.
_APART = """
apart=
! command -v setsid >/dev/null || apart=setsid
$apart sh -c "$@"
exit
"""
_NEEDED = ("bash", "setsid", "grep", "od", "mktemp", "stat")
_NEEDED_ALONE = (*_NEEDED, "tail", "flock", "tar", "gzip")
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True)
class Container:
    """A running container as its host sees it. `user` is the numeric id that `docker exec` gives its commands.

    `root` and `container_root` are the same folder, named by the host and by the container; None if they share none.
    `unusable` are folders that a mount shares and that were tried in vain. `storage` is the kind of file system that
    the site's root would lie on in the container.
    """

    id: str
    name: str
    image: str
    user: int
    tools: frozenset[str]
    root: str | None
    container_root: str | None
    unusable: str
    storage: str
    is_writable: bool


def locate(site: Site, *, reading: bool = False) -> tuple[Site, tuple[str, ...]]:
    """The site with its container found and the place of its runs settled, and warnings. Without a container: itself.

    A launch tries the shared folder by a file; who is only `reading` takes the one that has runs, and writes nothing.
    Raises ContainerGone if there is no such container, if it does not run, or if this user or rlx cannot use it.
    """
    if site.container is None or site.place.inside is not None:
        return site, ()
    return settle(site, inspect_container(site, reading=reading))


def inspect_container(site: Site, *, reading: bool = False) -> Container:
    """Ask the host about the site's container. Raises ContainerGone."""
    completed = transport_for(site.place).run(locating(site, "look" if reading else "try"), timeout_s=_TIMEOUT_S)
    if completed.code != 0:
        complaint = completed.err.decode(errors="replace").strip() or f"exit {completed.code}"
        raise HostError(f"{site.host}: cannot look at the container {site.container!r}: {complaint}")
    return read_container(site, completed.out.decode(errors="replace"))


def locating(site: Site, task: str, *more: str) -> Cmd:
    """The command on the host that `read_container` reads the answer of; see locate.sh for `task` and `more`."""
    words = (site.container or "", _without_slash(site.root), task, *more)
    return Cmd("sh", "-c", _APART, "rlx-locate", docker_script("locate.sh"), "locate.sh", *words)


def read_container(site: Site, answer: str) -> Container:
    """Raises ContainerGone for one that cannot be used, HostError for what is no answer."""
    with reading_answer(site.host, f"what the container {site.container} is"):
        return _parse(site, answer.splitlines())


def settle(site: Site, found: Container) -> tuple[Site, tuple[str, ...]]:
    """The site with this container and the place of its runs, and warnings. Raises ContainerGone."""
    if found.root is None or found.container_root is None:
        return _settle_inside(site, found)
    _check_tools(site, found, _NEEDED)
    return replace(
        site, container_id=found.id, image=found.image, root=found.root, container_root=found.container_root
    ), ()


def _without_slash(root: str) -> str:
    return root.rstrip("/") or "/"


def _parse(site: Site, lines: Sequence[str]) -> Container:
    words = [line.partition(" ")[::2] for line in lines]
    values = dict(words)
    if "error" in values:
        kind, _, text = values["error"].strip().partition(" ")
        raise refusal(site, kind, text.strip())
    return Container(
        id=values["id"],
        name=values["name"].removeprefix("/"),
        image=values["image"],
        user=int(values["user"]),
        tools=frozenset(tool for key, tool in words if key == "tool"),
        root=values.get("root"),
        container_root=values.get("container_root"),
        unusable=values.get("unusable", "").strip(),
        storage=values.get("storage", ""),
        is_writable="writable" in values,
    )


def _settle_inside(site: Site, found: Container) -> tuple[Site, tuple[str, ...]]:
    if found.unusable and site.root != Site().root:
        raise refusal(site, "unusable", found.unusable)
    if found.storage in _IN_MEMORY:
        raise refusal(site, "in-memory", found.storage)
    if not found.is_writable:
        raise refusal(site, "read-only", site.root)
    _check_tools(site, found, _NEEDED_ALONE)
    warning = (
        f"{site.host} and the container {found.name} share no folder that both can write: the runs lie in the "
        f"container and go with it, and devices are leased only against other runs in it; mount one with docker run -v"
    )
    place = replace(site.place, inside=found.id)
    return replace(site, place=place, container_id=found.id, image=found.image, container_root=None), (warning,)


def _check_tools(site: Site, found: Container, needed: Sequence[str]) -> None:
    missing = [tool for tool in needed if tool not in found.tools]
    if missing:
        raise ContainerGone(
            f"{site.host}: the container {found.name} has no {', '.join(missing)}",
            f"install it there, e.g. docker exec -u 0 {found.name} apt-get install -y bash util-linux tar gzip",
        )
