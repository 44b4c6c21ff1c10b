"""One entry of a file of hosts, key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rlx.hosts.inventory.host import DEVICE_KINDS, TRANSPORTS, Device, Host
from rlx.hosts.inventory.host_values import (
    absolute_problem,
    address_problem,
    container_problem,
    destination_problem,
    path_problem,
    public_problem,
    variable_problem,
)
from rlx.hosts.inventory.host_yaml import Reader, is_nothing
from rlx.hosts.inventory.image_entry import read_image
from rlx.plan import LOCAL, Slurm
from rlx.schedulers.slurm.entry import read_slurm
from rlx.secret_text import is_secret

_COUNT_LIMIT = 1024
NOT_OF_A_JOB = "what runs in this container is no part of a job of Slurm, which could neither end nor limit it"
OWN_CONTAINER = "name an image, of which each job makes a container of its own"


def read_host(reader: Reader, name: str, name_node: Any, node: Any) -> Host:
    """The entry; what is wrong with it is left with the reader."""
    key = f"hosts.{name}"
    values = reader.section(node, key, tuple(_READERS), _MEANT)
    settings = {part: _READERS[part](reader, value, f"{key}.{part}") for part, value in values.items()}
    if name == LOCAL.host:
        for part in ("ssh", "transport"):
            if part in values:
                reader.complain(
                    values[part], f"{key}.{part}", "local is this machine; remove this, or use another name"
                )
    elif "ssh" not in values and node.id == "mapping":
        reader.complain(name_node, f"{key}.ssh", "required, but missing: the ssh destination, such as USER@HOST")
    elif is_nothing(node):
        reader.complain(name_node, key, "has no settings; write at least ssh: USER@HOST")
    _check_alone(reader, values, key)
    for part, value in values.items():
        if part not in ("ssh", "env", "proxies"):
            _check_plain(reader, value, f"{key}.{part}")
    for variable in sorted(settings.get("env", {}).keys() & settings.get("proxies", {}).keys()):
        reader.complain(values["proxies"], f"{key}.proxies.{variable}", "stands in env as well; keep one")
    if settings.get("slurm") and (image := settings.get("image")):
        settings["image"] = replace(image, keep=False)
    settings.setdefault("device", _device_of_jobs(settings.get("slurm")))
    return Host(name, **settings, written=reader.place(name_node))


def _check_alone(reader: Reader, values: Mapping[str, Any], key: str) -> None:
    if "container" in values and "slurm" in values:
        reader.complain(values["container"], f"{key}.container", f"{NOT_OF_A_JOB}; {OWN_CONTAINER}")
    if "image" in values and "slurm" in values:
        _check_not_kept(reader, values["image"], f"{key}.image")
    if "container" in values and "image" in values:
        reader.complain(values["image"], f"{key}.image", "rlx makes a container of an image; keep this or container")


def _check_plain(reader: Reader, node: Any, key: str) -> None:
    """Complain of each secret below a node: what stands there is shown, and goes into manifests."""
    if node.id == "mapping":
        for name, value in node.value:
            _check_plain(reader, value, f"{key}.{name.value}")
    elif node.id == "sequence":
        for place, item in enumerate(node.value):
            _check_plain(reader, item, f"{key}[{place}]")
    elif is_secret(key, str(node.value)):
        fix = "log in on the host, or name a variable in the recipe: secrets: [NAME]"
        reader.complain(node, key, f"holds a password or key, and is stored in plain text; remove it: {fix}")


def _check_not_kept(reader: Reader, image: Any, key: str) -> None:
    if image.id != "mapping":
        return
    for name, value in image.value:
        if name.value == "keep" and value.value == "true":
            reader.complain(value, f"{key}.keep", "the container of a job of Slurm ends with it; remove this")


def _checked(problem_of: Callable[[str], str]) -> Callable[[Reader, Any, str], Any]:
    def read(reader: Reader, node: Any, key: str) -> str | None:
        text = reader.text(node, key)
        if text is not None and (problem := problem_of(text)):
            reader.complain(node, key, problem)
        return text

    return read


def _choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    return lambda text: "" if text in choices else f"must be one of {', '.join(choices)}, found {text!r}"


read_container = _checked(container_problem)
_path = _checked(path_problem)


def _device(reader: Reader, node: Any, key: str) -> Device | None:
    if node.id != "mapping":
        reader.complain(node, key, "must be a map such as {kind: npu, count: 8}")
        return None
    values = reader.section(node, key, ("kind", "count"), {"type": "kind", "number": "count"})
    if "kind" not in values:
        reader.complain(node, f"{key}.kind", f"required, but missing: one of {', '.join(DEVICE_KINDS)}")
        return None
    kind = _checked(_choice(DEVICE_KINDS))(reader, values["kind"], f"{key}.kind")
    count = _count(reader, values["count"], f"{key}.count") if "count" in values else None
    if count is not None and kind == "cpu":
        reader.complain(values["count"], f"{key}.count", "a CPU is not counted; remove it")
    return Device(kind, count)


def _device_of_jobs(slurm: Slurm | None) -> Device | None:
    """What a job may ask for is what the host is said to have, where the entry does not say."""
    kind, count = (slurm and slurm.device) or (None, None)
    return Device(kind, count) if kind in DEVICE_KINDS else None


def _count(reader: Reader, node: Any, key: str) -> int | None:
    text = reader.text(node, key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= _COUNT_LIMIT):
        reader.complain(node, key, f"must be a whole number from 1 to {_COUNT_LIMIT}")
        return None
    return int(text)


def _setup(reader: Reader, node: Any, key: str) -> tuple[str, ...]:
    return tuple(_path(reader, item, item_key) for item, item_key in reader.items(node, key))


def _env(reader: Reader, node: Any, key: str) -> dict[str, str]:
    found = {}
    for name, (name_node, value) in reader.entries(node, key).items():
        text = reader.text(value, f"{key}.{name}")
        if text is not None and (problem := public_problem(name, text)):
            reader.complain(name_node, f"{key}.{name}", problem)
        found[name] = text or ""
    return found


def _proxies(reader: Reader, node: Any, key: str) -> dict[str, str]:
    found = {}
    for name, (name_node, value) in reader.entries(node, key).items():
        if problem := variable_problem(name):
            reader.complain(name_node, f"{key}.{name}", problem)
        found[name] = _secret_name(reader, value, f"{key}.{name}")
    return found


def _secret_name(reader: Reader, node: Any, key: str) -> str:
    if node.id != "mapping":
        fix = "must be {secret: NAME}, the name of a secret; what needs no password may stand in env"
        reader.complain(node, key, fix)
        return ""
    values = reader.section(node, key, ("secret",), {"name": "secret"})
    if "secret" not in values:
        reader.complain(node, f"{key}.secret", "required, but missing: the name of a secret")
        return ""
    return _checked(variable_problem)(reader, values["secret"], f"{key}.secret") or ""


_READERS: dict[str, Callable[[Reader, Any, str], Any]] = {
    "ssh": _checked(destination_problem),
    "transport": _checked(_choice(TRANSPORTS)),
    "container": read_container,
    "image": read_image,
    "root": _path,
    "device": _device,
    "setup": _setup,
    "env": _env,
    "proxies": _proxies,
    "leases": _checked(absolute_problem),
    "address": _checked(address_problem),
    "python": _path,
    "slurm": read_slurm,
}
# What people write who have written ssh configs and inventories of other tools.
_MEANT = {
    "ansible_host": "ssh",
    "destination": "ssh",
    "docker": "container",
    "environment": "env",
    "gpus": "device",
    "host": "ssh",
    "hostname": "ssh",
    "npus": "device",
    "proxy": "proxies",
    "via": "transport",
}
