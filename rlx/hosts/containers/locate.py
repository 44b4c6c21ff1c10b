"""Inspect the container that a site names, and find the place of its runs. One command on the host.

Host and container share a folder by a mount. `site.root` is how the host writes it, `site.container_root` how the
container does. Where they share none, runs are in the container's own file system, and go with it.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlx.hosts.host_errors import ContainerGone, HostError, reading_answer
from rlx.hosts.inventory.inventory import MADE
from rlx.hosts.script_parts import slim
from rlx.hosts.transports import transport_for
from rlx.model import Cmd, Site
from rlx.resources import payload_folder

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
_AGAIN = "when nothing of yours runs in it: docker rm -f {name}, on the host; the next launch makes it anew"
_NOT_MADE = {
    "no-root": ("the folder of the runs cannot be made: {text}", "choose a root that you can write"),
    "no-mount": ("the entry mounts {text}, which is not there", "make it, or correct image.mounts"),
    "foreign": ("the container {name!r} is not one that rlx made for you", "log in as a user of your own"),
    "moved": ("the container {name!r} is of an older image than {image} is now", _AGAIN),
    "other-root": ("the container {name!r} was made for runs below {text}", f"use that root, or {_AGAIN}"),
    "stuck": ("the container {name!r} does not come up: it stays {text}", "docker logs {name}, on the host"),
    "refused": ("docker makes no container of {image}: {text}", "docker image inspect and docker info say more"),
}


@dataclass(frozen=True, slots=True)
class Container:
    """A running container as its host sees it. `user` is the numeric id that `docker exec` gives its commands.

    `root` and `container_root` are the same folder, named by the host and by the container; None if they share none.
    `unusable` are folders that a mount shares and that could not be written. `storage` is the kind of file system that
    the site's root would be on in the container.
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
    """Return the site with its container found and the place of its runs settled, and warnings.

    A site without a container is returned unchanged. A launch tries the shared folder by a file; a command that is only
    `reading` takes the one that has runs, and writes nothing. Raises ContainerGone if there is no such container, if it
    does not run, or if this user or rlx cannot use it.
    """
    if site.container is None or site.place.inside is not None:
        return site, ()
    return settle(site, inspect_container(site, reading=reading))


def inspect_container(site: Site, *, reading: bool = False) -> Container:
    """Ask the host about the site's container. Raises ContainerGone."""
    completed = transport_for(site.place).run(locating(site, "look" if reading else "try"), timeout_s=_TIMEOUT_S)
    if completed.code != 0:
        complaint = completed.err.decode(errors="replace").strip() or f"exit {completed.code}"
        raise HostError(f"{site.host}: cannot inspect the container {site.container!r}: {complaint}")
    return read_container(site, completed.out.decode(errors="replace"))


def locating(site: Site, task: str, *more: str) -> Cmd:
    """Return the command on the host that `read_container` reads the answer of; see locate.sh for `task` and `more`."""
    words = (site.container or "", site.root.rstrip("/") or "/", task, *more)
    return Cmd("sh", "-c", _APART, "rlx-locate", docker_script("locate.sh"), "locate.sh", *words)


def read_container(site: Site, answer: str) -> Container:
    """Read the answer. Raises ContainerGone for one that cannot be used, HostError for what is no answer."""
    with reading_answer(site.host, f"what the container {site.container} is"):
        return _parse(site, answer.splitlines())


def settle(site: Site, found: Container) -> tuple[Site, tuple[str, ...]]:
    """Return the site with this container and the place of its runs, and warnings. Raises ContainerGone."""
    if found.root is None or found.container_root is None:
        return _settle_inside(site, found)
    _check_tools(site, found, _NEEDED)
    return replace(
        site, container_id=found.id, image=found.image, root=found.root, container_root=found.container_root
    ), ()


def _parse(site: Site, lines: Sequence[str]) -> Container:
    words = [line.partition(" ")[::2] for line in lines]
    values = dict(words)
    if "error" in values:
        kind, _, text = values["error"].strip().partition(" ")
        raise _refusal(site, kind, text.strip())
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
        raise _refusal(site, "unusable", found.unusable)
    if found.storage in _IN_MEMORY:
        raise _refusal(site, "in-memory", found.storage)
    if not found.is_writable:
        raise _refusal(site, "read-only", site.root)
    _check_tools(site, found, _NEEDED_ALONE)
    warning = (
        f"{site.host} and the container {found.name} share no folder that both can write: the runs are in the "
        "container and are lost with it, and devices are leased only against other runs in it; mount one with "
        "docker run -v"
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


def _refusal(site: Site, kind: str, text: str) -> ContainerGone:
    """Return the error for what locate.sh, or `locate`, found wrong; `text` is the detail of that kind."""
    message, hint = _words(site, kind, text)
    return ContainerGone(f"{site.host}: {message}", hint)


def not_made(site: Site, image: str, name: str, kind: str, text: str) -> ContainerGone:
    """Return the error for what container.sh found wrong with the image, or the container of that name."""
    message, hint = _making_words(image, name, kind, text) or _words(replace(site, container=name), kind, text)
    return ContainerGone(f"{site.host}: {message}", hint)


def _making_words(image: str, name: str, kind: str, text: str) -> tuple[str, str] | None:
    if kind == "no-image":
        near = difflib.get_close_matches(image, text.split(), n=1)
        there = f"did you mean {near[0]}? " if near else ""
        return f"there is no image {image!r}", f"{there}rlx fetches none: docker pull {image}, on the host"
    words = _NOT_MADE.get(kind)
    return words and (
        words[0].format(image=image, name=name, text=text),
        words[1].format(name=name),
    )


def _words(site: Site, kind: str, text: str) -> tuple[str, str]:
    name = site.container or ""
    match kind:
        case "no-docker":
            return f"there is no docker command to reach the container {name!r} with", "install docker on that host"
        case "denied":
            return (
                f"{text or 'this user'} may not use docker",
                f"ask an administrator for: sudo usermod -aG docker {text or 'USER'}; then log in again "
                "(rlx: a shared connection keeps the old groups until it is closed)",
            )
        case "down":
            return f"the docker daemon does not answer: {text or 'no answer in time'}", "systemctl status docker"
        case "missing" if name.startswith(MADE):
            return f"the container of its image, {name}, is not there", f"rlx hosts start {site.host} makes it"
        case "missing":
            return f"there is no container {name!r}", _did_you_mean(name, text.split())
        case "state":
            fix = {
                "paused": f"docker unpause {name}",
                "restarting": f"docker logs {name} shows why it does not stay up",
            }
            return f"the container {name!r} is {text}, not running", fix.get(text, f"docker start {name}")
        case _:
            return _unfit(name, kind, text)


def _did_you_mean(name: str, running: list[str]) -> str:
    if not running:
        return "no container runs there; rlx starts none that it did not create"
    near = difflib.get_close_matches(name, running, n=1)
    return f"did you mean {near[0]}?" if near else f"running are: {', '.join(running)}"


def _unfit(name: str, kind: str, text: str) -> tuple[str, str]:
    match kind:
        case "no-shell":
            return f"no shell can be started in the container {name!r}: {text}", "rlx needs sh and bash in it"
        case "unusable":
            return (
                f"the container {name!r} and this user cannot both write below {text}",
                "its user must be root or have your uid, and the mount must be writable; or choose another root",
            )
        case "in-memory":
            return (
                f"the container {name!r} shares no folder with its host, and the root in it is in memory ({text})",
                "mount a folder with docker run -v, or choose a root on disk",
            )
        case "read-only":
            return (
                f"the container {name!r} shares no folder with its host, and its user cannot write {text} in it",
                "mount a folder with docker run -v, or choose another root",
            )
        case _:
            return f"docker refuses to inspect the container {name!r}: {text}", f"try: docker inspect {name}"


def docker_script(*names: str) -> str:
    """Return the scripts of these names as one, behind what all of them share, without their comments."""
    return "".join(
        slim((payload_folder() / part).read_text(encoding="utf-8")).decode() for part in ("ask_docker.sh", *names)
    )
