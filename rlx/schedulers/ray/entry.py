"""Read the `ray` of a host's entry: `{address: http://127.0.0.1:8265}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.hosts.inventory.host_yaml import Reader
from rlx.model import to_jsonable
from rlx.schedulers.ray.settings import Ray, address_problem, ray_from

_MEANT = {"dashboard": "address", "dashboard_url": "address", "head": "address", "url": "address"}


def read(reader: Reader, node: Any, key: str) -> Mapping[str, Any] | None:
    """Read the map; what is wrong with it is left with the reader."""
    if node.id != "mapping":
        reader.complain(node, key, "must be a map such as {address: http://127.0.0.1:8265}")
        return None
    values = reader.section(node, key, ("address",), _MEANT)
    if "address" not in values:
        reader.complain(node, f"{key}.address", "required, but missing: the address of the cluster's dashboard")
        return None
    text = reader.text(values["address"], f"{key}.address")
    if text is None:
        return None
    if problem := address_problem(text):
        reader.complain(values["address"], f"{key}.address", problem)
        return None
    settings: Mapping[str, Any] = to_jsonable(Ray(text.rstrip("/")))
    return settings


def device(settings: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return None: what the nodes have, the cluster itself says."""
    return None


def words(settings: Mapping[str, Any]) -> str:
    """Say where runs are submitted to."""
    return f"the Ray cluster of {ray_from(settings).address}"
