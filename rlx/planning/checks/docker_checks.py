"""Findings on Docker and on the container that runs would go into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rlx.hosts.inventory.inventory import MADE
from rlx.model import Finding, Severity, Site
from rlx.planning.probing.examined import Examined, shared_folders, shares_root
from rlx.planning.probing.probe import Facts

_HIDDEN = ("default", "bridge", "none")
_SMALL_SHM_BYTES = 1024**3
# What guides for NPUs set: Ray, HCCL and the loaders open many.
_OPEN_FILES = 32_768
_FIXES = {
    "missing": "install the Docker CLI on the host, or give a host without a container",
    "denied": "sudo usermod -aG docker {user}, on the host; then log in again",
    "down": "sudo systemctl start docker, on the host",
    "other": "docker version, on the host, says the rest",
}


def docker(examined: Examined) -> Iterator[Finding]:
    """Judge Docker, which matters only for a container."""
    found = examined.host.of("docker")
    if examined.site.container is None or not found or found["problem"] is None:
        return
    user = examined.host.of("machine").get("user", "you")
    said = f": {found['said']}" if found["said"] else ""
    message = f"Docker cannot be used ({found['problem']}){said}"
    fix = _FIXES[found["problem"]].format(user=user)
    yield Finding("RLX521", Severity.ERROR, message, fix, examined.site.host)


def container(examined: Examined) -> Iterator[Finding]:
    found = examined.host.of("container")
    name = examined.site.container
    if name is None or not found or examined.host.of("docker").get("problem"):
        return
    if "error" in found and name.startswith(MADE):
        message = f"the container of its image, {name}, is not there yet"
        fix = f"a launch makes it, and so does: rlx hosts start {examined.site.host}"
        yield Finding("RLX522", Severity.NOTE, message, fix, examined.site.host)
    elif "error" in found:
        running = ", ".join(one["name"] for one in examined.host.of("docker").get("running", ())) or "none"
        message = f"the container {name} cannot be looked at: {found['error']}"
        yield Finding("RLX522", Severity.ERROR, message, f"name one that runs: {running}", examined.site.host)
    elif found.get("state") != "running":
        message = f"the container {name} does not run: it is {found.get('state')}"
        yield Finding("RLX522", Severity.ERROR, message, f"docker start {name}, on the host", examined.site.host)
    else:
        yield from _entry(examined)
        yield from _limits(found, examined)
        yield from _storage(found, examined)


def reachable(examined: Examined) -> Iterator[Finding]:
    """Refuse for several nodes a container behind its host's bridge: no other host knows its address."""
    network, name = examined.host.of("container").get("network"), examined.site.container
    if network in _HIDDEN:
        message = f"the container {name} has a network of its own ({network}): other nodes cannot reach the Ray in it"
        yield Finding("RLX506", Severity.ERROR, message, "start it with --network host", examined.site.host)


def _entry(examined: Examined) -> Iterator[Finding]:
    if examined.inside is None:
        message = f"the container cannot be entered: {examined.entry or 'docker exec said nothing'}"
        fix = f"docker exec {examined.site.container} sh, on the host, says the rest"
        yield Finding("RLX523", Severity.ERROR, message, fix, examined.where)


def _limits(found: Facts, examined: Examined) -> Iterator[Finding]:
    first = examined.inside.of("processes").get("init") if examined.inside else None
    if not found["init"] and first and not _reaps(first):
        message = "process 1 does not reap orphans, so each run leaves zombies until the container restarts"
        yield Finding("RLX524", Severity.NOTE, message, "create the container with --init", examined.where)
    shm = found.get("shm_bytes", 0)
    if shm < _SMALL_SHM_BYTES and found.get("ipc") != "host":
        message = f"/dev/shm has {shm / 1024**2:.0f} MiB; Ray and the data loaders share memory there"
        yield Finding(
            "RLX525", Severity.WARNING, message, "create it with --ipc=host or --shm-size=64g", examined.where
        )
    files = examined.inside.of("machine").get("open_files") if examined.inside else None
    if isinstance(files, int) and files < _OPEN_FILES:
        message = f"{files} open files are allowed; guides for NPUs set {_OPEN_FILES}"
        has_npus = bool(examined.inside and examined.inside.of("devices").get("numbers"))
        severity = Severity.WARNING if has_npus else Severity.NOTE
        yield Finding("RLX526", severity, message, _limit_fix(examined), examined.where)


def _limit_fix(examined: Examined) -> str:
    if (examined.site.container or "").startswith(MADE):
        return "rlx was not allowed to raise it: ask for a higher LimitNOFILE of the host's docker.service"
    return "create it with --ulimit nofile=65536"


def _reaps(init: str) -> bool:
    """Tell whether process 1 waits for orphans. bash and sh do, too, while they wait for a command."""
    return PurePosixPath(init.split()[0]).name in {
        "tini",
        "docker-init",
        "dumb-init",
        "s6-svscan",
        "systemd",
        "init",
        "bash",
        "sh",
        "dash",
    }


def _storage(found: Facts, examined: Examined) -> Iterator[Finding]:
    """Runs are to outlive the container, so their root lies in a folder that it shares with the host."""
    root, shared = examined.site.root, shared_folders(examined)
    # The root that nobody has chosen is a choice of the launch: it takes a folder that is shared.
    if shared and (root == Site().root or shares_root(examined)):
        return
    fate = "are removed with it when it stops (--rm)" if found["auto_remove"] else "go with it"
    message = f"host and container share no folder that holds {root}: runs would lie in the container and {fate}"
    fix = (
        f"set a root below {' or '.join(map(str, shared[:3]))}: rlx hosts add … --root"
        if shared
        else "create the container with a shared folder: docker run -v /data:/data"
    )
    yield Finding("RLX527", Severity.WARNING, message, fix, examined.where)
