"""Find the head of a run's Ray, and the address and interface by which this node reaches it."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from typing import Any, cast

PATIENCE_S = 5.0
# gloo, torch_npu's tensor pipe and HCCL each choose an interface of their own otherwise, often docker0.
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")


@dataclass(frozen=True)
class Address:
    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def number(self) -> str:
        """The host as a numeric address. Exits with a message for a name that does not resolve here."""
        try:
            return cast(str, socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0][4][0])
        except OSError as problem:
            sys.exit(f"rlx: the head's address {self.host} is unknown here: {problem}")

    def try_to_connect(self) -> OSError | None:
        """Return why no connection is possible: ConnectionRefusedError if the machine answers and nothing listens."""
        try:
            socket.create_connection((self.host, self.port), PATIENCE_S).close()
        except OSError as problem:
            return problem
        return None

    def own_address(self) -> str:
        """Return the address of this machine from which packets to it leave. Nothing is sent."""
        family = socket.AF_INET6 if ":" in self.number else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((self.number, self.port))
            return cast(str, probe.getsockname()[0])


def refuse_what_cannot_be_bound(head: Address) -> None:
    """Check that the port is free. Exits with a message for an address of another machine, or a port in use."""
    family = socket.AF_INET6 if ":" in head.number else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((head.number, 0))
        except OSError:
            sys.exit(
                f"rlx: {head.host} is no address of this node, so no other node can reach its Ray there\n"
                "  fix: start the container with --network host, or give the host's entry the address (rlx hosts)"
            )
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As Ray does, so that connections of a run that has just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", head.port))
        except OSError as problem:
            sys.exit(f"rlx: port {head.port} of this node, where its Ray should listen, is taken ({problem.strerror})")


def psutil_of_ray() -> Any:
    """Ray brings its own psutil, which is found once Ray is imported."""
    import ray  # noqa: F401, I001
    import psutil  # type: ignore[import-untyped]

    return psutil


def name_interface(address: str) -> None:
    """Tell the communication libraries to use the interface that has this address; what is set already stays."""
    for name, addresses in psutil_of_ray().net_if_addrs().items():
        if any(one.address.partition("%")[0] == address for one in addresses):
            for variable in INTERFACE_VARIABLES:
                os.environ.setdefault(variable, name)
            return
