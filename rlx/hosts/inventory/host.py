"""Describe a host as rlx knows it: the values of the files of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rlx.model import DEFAULT_LEASES, LOCAL, BatchScheduler, Image

TRANSPORTS = ("openssh", "paramiko")
DEVICE_KINDS = ("npu", "cuda", "cpu")


@dataclass(frozen=True, slots=True)
class Device:
    """The devices of a host. `count` is None where the file does not say; a CPU is not counted."""

    kind: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """An entry. `ssh` is None for this machine alone; `written` is `file:line`, empty for what no file says.

    `address` is what the other nodes of a run reach the host by, `python` an interpreter that a query may start.
    `batch`: it is a login node, and runs are jobs. A `container` comes without `image` and `batch`.
    """

    name: str
    ssh: str | None = None
    transport: str = "openssh"
    container: str | None = None
    image: Image | None = None
    root: str = "~/rlx"
    device: Device | None = None
    setup: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    leases: str = DEFAULT_LEASES
    address: str | None = None
    python: str | None = None
    batch: BatchScheduler | None = None
    written: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Defaults:
    """The host of launches that name none. `container` belongs to that host alone."""

    host: str = LOCAL.host
    container: str | None = None
    written: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class HostFile:
    """`defaults` is None where the file gives none."""

    hosts: Mapping[str, Host] = field(default_factory=dict)
    defaults: Defaults | None = None
