"""Read a file of hosts, entry by entry: `hosts.yaml` of a user, `rlx.yaml` of a project. Both have the same form.

    hosts:
      a3:
        ssh: user@npu-host-1        # or ssh://user@host:port, or a name of the user's ssh config
        transport: openssh          # or paramiko
        container: verl             # runs go into this container, which already runs
        root: /data/me/rlx          # folder of the runs, as the host writes it
        device: {kind: npu, count: 8}
        setup: [/usr/local/Ascend/ascend-toolkit/set_env.sh]
        env: {HCCL_CONNECT_TIMEOUT: 1800}
        proxies: {https_proxy: {secret: CORP_PROXY}}
        leases: /var/tmp/rlx-leases
        python: /opt/conda/bin/python   # a query may start it, also where a recipe names it
    defaults: {host: a3}

`local` is this machine: it needs no entry, and one for it has no `ssh` and no `transport`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlx.errors import RlxError, UsageError
from rlx.hosts.inventory.host import DEVICE_KINDS, TRANSPORTS, Defaults, Device, Host, HostFile
from rlx.hosts.inventory.host_values import (
    absolute_problem,
    address_problem,
    container_problem,
    destination_problem,
    name_problem,
    path_problem,
    public_problem,
    variable_problem,
)
from rlx.hosts.inventory.host_yaml import Reader, is_nothing, read_nodes
from rlx.hosts.inventory.image_entry import read_image
from rlx.local_files import read_bytes
from rlx.model import LOCAL, BatchScheduler
from rlx.schedulers.protocol import entry_of
from rlx.schedulers.registry import batch_schedulers, is_batch_scheduler
from rlx.secret_text import is_secret

_SIZE_LIMIT = 1_000_000
_COUNT_LIMIT = 1024
NOT_OF_A_JOB = "what runs in this container is no part of a job, whose scheduler could neither end nor limit it"
OWN_CONTAINER = "name an image, of which each job makes a container of its own"


def read_host_file(path: Path) -> HostFile:
    """Read a file of hosts; nothing, if it does not exist. Raises UsageError with file, line, key and fix."""
    text = read_text(path)
    return parse_host_file(text, str(path)) if text.strip() else HostFile()


def read_text(path: Path) -> str:
    """Return the text of a file of hosts, empty if there is none.

    Raises UsageError for what is no text of up to 1 MB.
    """
    if str(path) == os.devnull:
        return ""
    try:
        return read_bytes(path, _SIZE_LIMIT).decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is no UTF-8 text") from None


def parse_host_file(text: str, file: str, *, has_lines: bool = True) -> HostFile:
    """Read the text. Raises UsageError with every problem, without a line unless it `has_lines`."""
    root, problems = read_nodes(text, file)
    if root is None:
        return HostFile()
    reader = Reader(file, problems, has_lines=has_lines)
    top = reader.section(root, "", ("hosts", "defaults"), {"default": "defaults", "host": "hosts"})
    hosts = _hosts(reader, top["hosts"]) if "hosts" in top else {}
    defaults = _defaults(reader, top["defaults"]) if "defaults" in top else None
    reader.check()
    return HostFile(hosts, defaults)


def _hosts(reader: Reader, node: Any) -> dict[str, Host]:
    found = {}
    for name, (name_node, value) in reader.entries(node, "hosts").items():
        if problem := name_problem(name):
            reader.complain(name_node, f"hosts.{name[:80]}", problem)
        else:
            found[name] = _read_host(reader, name, name_node, value)
    return found


def _defaults(reader: Reader, node: Any) -> Defaults:
    values = reader.section(node, "defaults", ("host", "container"), {"ssh": "host"})
    host = reader.text(values["host"], "defaults.host") if "host" in values else None
    container = read_container(reader, values["container"], "defaults.container") if "container" in values else None
    return Defaults(host or LOCAL.host, container, reader.place(node))


def _read_host(reader: Reader, name: str, name_node: Any, node: Any) -> Host:
    """Read the entry, and leave what is wrong with it to the reader."""
    key = f"hosts.{name}"
    schedulers = _schedulers(node)
    readers = {**_READERS, **{name: _batch_reader(name) for name in schedulers}}
    values = reader.section(node, key, tuple(readers), _MEANT)
    settings = {part: readers[part](reader, value, f"{key}.{part}") for part, value in values.items()}
    batch = next(filter(None, [settings.pop(name, None) for name in schedulers]), None)
    if name == LOCAL.host:
        for part in ("ssh", "transport"):
            if part in values:
                reader.complain(
                    values[part], f"{key}.{part}", "local is this machine; remove this, or use another name"
                )
    elif "ssh" not in values and node.id == "mapping":
        submits = "; jobs are submitted there over ssh: the address of a scheduler is not enough"
        why = submits if any(scheduler in values for scheduler in schedulers) else ""
        reader.complain(name_node, f"{key}.ssh", f"required, but missing: the ssh destination, such as USER@HOST{why}")
    elif is_nothing(node):
        reader.complain(name_node, key, "has no settings; write at least ssh: USER@HOST")
    _check_alone(reader, values, key, schedulers)
    for part, value in values.items():
        if part not in ("ssh", "env", "proxies"):
            _check_plain(reader, value, f"{key}.{part}")
    for variable in sorted(settings.get("env", {}).keys() & settings.get("proxies", {}).keys()):
        reader.complain(values["proxies"], f"{key}.proxies.{variable}", "is in env as well; keep one")
    if batch and (image := settings.get("image")):
        settings["image"] = replace(image, keep=False)
    settings.setdefault("device", _device_of_jobs(batch))
    return Host(name, **settings, batch=batch, written=reader.place(name_node))


def _schedulers(node: Any) -> tuple[str, ...]:
    """Return the batch schedulers that an entry may name: those of rlx, and what it names of other distributions."""
    keys = [key.value for key, _ in node.value] if node.id == "mapping" else []
    unknown = [key for key in keys if key not in _READERS and key not in _MEANT]
    return tuple(dict.fromkeys([*batch_schedulers(), *filter(is_batch_scheduler, unknown)]))


def _batch_reader(name: str) -> Callable[[Reader, Any, str], BatchScheduler | None]:
    """Return what reads a scheduler's settings. One that cannot be loaded is named where it is used, not here."""

    def read(reader: Reader, node: Any, key: str) -> BatchScheduler | None:
        try:
            settings = entry_of(name).read(reader, node, key)
        except RlxError:
            settings = {}
        return None if settings is None else BatchScheduler(name, settings)

    return read


def _check_alone(reader: Reader, values: Mapping[str, Any], key: str, schedulers: Sequence[str]) -> None:
    named = [name for name in schedulers if name in values]
    for other in named[1:]:
        reader.complain(values[other], f"{key}.{other}", f"{named[0]} starts the runs already; keep one")
    if "container" in values and named:
        reader.complain(values["container"], f"{key}.container", f"{NOT_OF_A_JOB}; {OWN_CONTAINER}")
    if "image" in values and named:
        _check_not_kept(reader, values["image"], f"{key}.image")
    if "container" in values and "image" in values:
        reader.complain(values["image"], f"{key}.image", "rlx makes a container of an image; keep this or container")


def _check_plain(reader: Reader, node: Any, key: str) -> None:
    """Complain of each secret below a node: what is there is shown, and goes into manifests."""
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
            reader.complain(value, f"{key}.keep", "the container of a job ends with it; remove this")


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


def _device_of_jobs(batch: BatchScheduler | None) -> Device | None:
    """Return the devices that a job may ask for, as those of the host, where the entry does not say."""
    found = entry_of(batch.scheduler).device(batch.settings) if batch and batch.settings else None
    kind, count = found or (None, None)
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
        fix = "must be {secret: NAME}, the name of a secret; what needs no password may be in env"
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
