"""Query Docker and the container of a run: parse the answers, and report what would not work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from rlx.hosts.inventory.inventory import MADE
from rlx.model import Finding, Severity, Site
from rlx.planning.probing.probe import (
    Probe,
    ProbeFacts,
    ProbeResults,
    json_objects,
    key_values,
    last_line,
    shared_folders,
    shares_root,
)

_DENIED = re.compile(r"permission denied", re.IGNORECASE)
_DOWN = re.compile(r"cannot connect to the docker daemon|is the docker daemon running", re.IGNORECASE)
_TEXTS = ("id", "name", "image_id", "image", "state", "started", "ipc", "restart", "network", "pid")
_COUNTS = ("shm_bytes", "memory_bytes")
_SWITCHES = ("init", "privileged", "auto_remove")

# The fields of a container that matter for a run; no others, since its environment may hold secrets.
# `index`, because the daemon omits unset fields, and a missing name would be an error.
_FIELDS = {
    "id": ".Id",
    "name": ".Name",
    "image_id": ".Image",
    "image": ".Config.Image",
    "state": ".State.Status",
    "started": ".State.StartedAt",
    "mounts": ".Mounts",
    "shm_bytes": '(index .HostConfig "ShmSize")',
    "ipc": '(index .HostConfig "IpcMode")',
    "init": '(index .HostConfig "Init")',
    "restart": ".HostConfig.RestartPolicy.Name",
    "ulimits": '(index .HostConfig "Ulimits")',
    "privileged": '(index .HostConfig "Privileged")',
    "network": '(index .HostConfig "NetworkMode")',
    "pid": '(index .HostConfig "PidMode")',
    "auto_remove": '(index .HostConfig "AutoRemove")',
    "memory_bytes": '(index .HostConfig "Memory")',
}
CONTAINER_FORMAT = "{" + ",".join(f'"{name}":{{{{json {field}}}}}' for name, field in _FIELDS.items()) + "}"


def parse_docker(text: str) -> dict[str, Any]:
    """Parse Docker: `problem` is missing, denied, down, other or None; `running` lists id, name and image."""
    found = key_values(text)
    running = re.findall(r"^container=(\S+) (\S+) (\S+)$", text, re.MULTILINE)
    return {
        "client": found.get("client"),
        "server": found.get("server"),
        "problem": _problem(text, found),
        "said": "" if found.get("server") or found.get("missing") else last_line(text),
        "running": [{"id": id_, "name": name, "image": image} for id_, name, image in running],
    }


def _problem(text: str, found: dict[str, str]) -> str | None:
    if found.get("server"):
        return None
    if found.get("missing") == "yes":
        return "missing"
    return "denied" if _DENIED.search(text) else "down" if _DOWN.search(text) else "other"


def parse_container(text: str) -> dict[str, Any]:
    """Parse state, image, mounts and limits of a container; `error` if there is none of that name."""
    objects = json_objects(text)
    if not objects:
        return {"error": last_line(text) or "docker inspect printed nothing"}
    raw = objects[0]
    facts: dict[str, Any] = {key: raw[key] for key in _TEXTS if isinstance(raw.get(key), str)}
    facts.update({key: raw[key] for key in _COUNTS if type(raw.get(key)) is int})
    facts.update({key: raw.get(key) is True for key in _SWITCHES})
    facts["mounts"] = [_mount(mount) for mount in _list(raw.get("mounts")) if isinstance(mount, dict)]
    limits = [limit for limit in _list(raw.get("ulimits")) if isinstance(limit, dict)]
    facts["ulimits"] = {str(limit.get("Name")): limit["Soft"] for limit in limits if type(limit.get("Soft")) is int}
    facts["digests"] = _digests(text)
    return facts


def _mount(mount: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": str(mount.get("Type")),
        "source": str(mount.get("Source")),
        "destination": str(mount.get("Destination")),
        "writable": mount.get("RW") is True,
    }


def _digests(text: str) -> list[str]:
    """Read `name@sha256:…` of the image from the line that is a list."""
    for line in text.splitlines():
        if line.startswith("["):
            try:
                return [str(entry) for entry in json.loads(line)]
            except (ValueError, RecursionError):
                continue
    return []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


DOCKER = Probe("docker", "docker.sh", parse_docker, limit_s=15)
CONTAINER = Probe("container", "container.sh", parse_container, limit_s=15)


_HIDDEN = ("default", "bridge", "none")
_SMALL_SHM_BYTES = 1024**3
# The value in guides for NPUs: Ray, HCCL and the loaders open many files.
_OPEN_FILES = 32_768
_FIXES = {
    "missing": "install the Docker CLI on the host, or give a host without a container",
    "denied": "sudo usermod -aG docker {user}, on the host; then log in again",
    "down": "sudo systemctl start docker, on the host",
    "other": "docker version, on the host, shows the reason",
}


def docker(results: ProbeResults) -> Iterator[Finding]:
    """Check that Docker works, which matters only for a container."""
    found = results.host.of("docker")
    if results.site.container is None or not found or found["problem"] is None:
        return
    user = results.host.of("machine").get("user", "you")
    said = f": {found['said']}" if found["said"] else ""
    message = f"Docker cannot be used ({found['problem']}){said}"
    fix = _FIXES[found["problem"]].format(user=user)
    yield Finding("RLX521", Severity.ERROR, message, fix, results.site.host)


def container(results: ProbeResults) -> Iterator[Finding]:
    found = results.host.of("container")
    name = results.site.container
    if name is None or not found or results.host.of("docker").get("problem"):
        return
    if "error" in found and name.startswith(MADE):
        message = f"the container of its image, {name}, does not exist yet"
        fix = f"a launch makes it, and so does: rlx hosts start {results.site.host}"
        yield Finding("RLX522", Severity.NOTE, message, fix, results.site.host)
    elif "error" in found:
        running = ", ".join(one["name"] for one in results.host.of("docker").get("running", ())) or "none"
        message = f"the container {name} cannot be inspected: {found['error']}"
        yield Finding("RLX522", Severity.ERROR, message, f"name one that runs: {running}", results.site.host)
    elif found.get("state") != "running":
        message = f"the container {name} is not running: it is {found.get('state')}"
        yield Finding("RLX522", Severity.ERROR, message, f"docker start {name}, on the host", results.site.host)
    else:
        yield from _entry(results)
        yield from _limits(found, results)
        yield from _storage(found, results)


def reachable(results: ProbeResults) -> Iterator[Finding]:
    """Refuse a container behind its host's bridge for several nodes: other hosts cannot reach its address."""
    network, name = results.host.of("container").get("network"), results.site.container
    if network in _HIDDEN:
        message = f"the container {name} has its own network ({network}): other nodes cannot reach the Ray in it"
        yield Finding("RLX506", Severity.ERROR, message, "start it with --network host", results.site.host)


def _entry(results: ProbeResults) -> Iterator[Finding]:
    if results.inside is None:
        message = f"the container cannot be entered: {results.entry or 'docker exec printed nothing'}"
        fix = f"docker exec {results.site.container} sh, on the host, shows the reason"
        yield Finding("RLX523", Severity.ERROR, message, fix, results.where)


def _limits(found: ProbeFacts, results: ProbeResults) -> Iterator[Finding]:
    first = results.inside.of("processes").get("init") if results.inside else None
    if not found["init"] and first and not _reaps(first):
        message = "process 1 does not reap orphans, so each run leaves zombies until the container restarts"
        yield Finding("RLX524", Severity.NOTE, message, "create the container with --init", results.where)
    shm = found.get("shm_bytes", 0)
    if shm < _SMALL_SHM_BYTES and found.get("ipc") != "host":
        message = f"/dev/shm has {shm / 1024**2:.0f} MiB; Ray and the data loaders share memory there"
        yield Finding("RLX525", Severity.WARNING, message, "create it with --ipc=host or --shm-size=64g", results.where)
    files = results.inside.of("machine").get("open_files") if results.inside else None
    if isinstance(files, int) and files < _OPEN_FILES:
        message = f"{files} open files are allowed; guides for NPUs set {_OPEN_FILES}"
        has_npus = bool(results.inside and results.inside.of("devices").get("numbers"))
        severity = Severity.WARNING if has_npus else Severity.NOTE
        yield Finding("RLX526", severity, message, _limit_fix(results), results.where)


def _limit_fix(results: ProbeResults) -> str:
    if (results.site.container or "").startswith(MADE):
        return "rlx was not allowed to raise it: ask for a higher LimitNOFILE of the host's docker.service"
    return "create it with --ulimit nofile=65536"


def _reaps(init: str) -> bool:
    """Return whether process 1 reaps orphans. bash and sh do so while they wait for a command."""
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


def _storage(found: ProbeFacts, results: ProbeResults) -> Iterator[Finding]:
    """Warn if the runs would not outlive the container: their root must be in a folder shared with the host."""
    root, shared = results.site.root, shared_folders(results)
    # Without a chosen root, the launch uses a shared folder.
    if shared and (root == Site().root or shares_root(results)):
        return
    fate = "are removed with it when it stops (--rm)" if found["auto_remove"] else "are lost with it"
    message = f"host and container share no folder that holds {root}: runs would be in the container and {fate}"
    fix = (
        f"set a root below {' or '.join(map(str, shared[:3]))}: rlx hosts add … --root"
        if shared
        else "create the container with a shared folder: docker run -v /data:/data"
    )
    yield Finding("RLX527", Severity.WARNING, message, fix, results.where)
