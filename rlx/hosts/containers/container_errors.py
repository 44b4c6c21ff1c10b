"""Word the errors of containers that cannot be used, with what helps."""

from __future__ import annotations

import difflib
from dataclasses import replace

from rlx.hosts.host_errors import ContainerGone
from rlx.hosts.inventory.inventory import MADE
from rlx.plan import Site

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


def refusal(site: Site, kind: str, text: str) -> ContainerGone:
    """The error for what locate.sh, or `locate`, found wrong; `text` is the detail of that kind."""
    message, hint = _words(site, kind, text)
    return ContainerGone(f"{site.host}: {message}", hint)


def not_made(site: Site, image: str, name: str, kind: str, text: str) -> ContainerGone:
    """The error for what container.sh found wrong with the image, or the container of that name."""
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
            return _not_running(name, text)
        case _:
            return _unfit(name, kind, text)


def _did_you_mean(name: str, running: list[str]) -> str:
    if not running:
        return "no container runs there; rlx starts none that it did not create"
    near = difflib.get_close_matches(name, running, n=1)
    return f"did you mean {near[0]}?" if near else f"running are: {', '.join(running)}"


def _not_running(name: str, state: str) -> tuple[str, str]:
    fix = {"paused": f"docker unpause {name}", "restarting": f"docker logs {name} says why it does not stay up"}
    return f"the container {name!r} is {state}, not running", fix.get(state, f"docker start {name}")


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
                f"the container {name!r} shares no folder with its host, and the root in it lies in memory ({text})",
                "mount a folder with docker run -v, or choose a root on disk",
            )
        case "read-only":
            return (
                f"the container {name!r} shares no folder with its host, and its user cannot write {text} in it",
                "mount a folder with docker run -v, or choose another root",
            )
        case _:
            return f"docker refuses to look at the container {name!r}: {text}", f"try: docker inspect {name}"
