"""Parse what Docker says: of itself, and of the container that a run would go into."""

from __future__ import annotations

import json
import re
from typing import Any

from rlx.planning.probing.probe import Probe, json_objects, key_values, last_line

_DENIED = re.compile(r"permission denied", re.IGNORECASE)
_DOWN = re.compile(r"cannot connect to the docker daemon|is the docker daemon running", re.IGNORECASE)
_TEXTS = ("id", "name", "image_id", "image", "state", "started", "ipc", "restart", "network", "pid")
_COUNTS = ("shm_bytes", "memory_bytes")
_SWITCHES = ("init", "privileged", "auto_remove")

# What of a container concerns a run. Named fields only: its environment may hold secrets.
# `index`, because the daemon leaves out what is not set, and a missing name would be an error.
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
    """`problem` is missing, denied, down, other or None; `running` lists the containers as (id, name, image)."""
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
    """State, image, mounts and limits of a container; `error` if there is none of that name."""
    objects = json_objects(text)
    if not objects:
        return {"error": last_line(text) or "docker inspect said nothing"}
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
    """`name@sha256:…` of the image, from the line that is a list."""
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
